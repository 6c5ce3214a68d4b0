// The answers of a conversation: sentences are joined and drawn like the messages of a chat.

import { draw, plain } from "./text.js";
import { make } from "/dashboard/dom.js";

/** Answers name no members, roles or channels. */
const NAMES = { member: () => null, role: () => null, channel: () => null };

/** Maximum number of sentences that share a caption. */
const CAPTION_MAX = 5;
/** Matches the end of a sentence, with the marks that may follow it. */
const ENDS = /[.!?…。？！।][*_~`"'”’»)\]]*\s*$/;

/** Draws a text like a message of the chat. */
export const drawn = (text) => draw(text, NAMES);

/** True if a sentence has speech behind the last one that was heard; `heard` is null if none was. */
const isBeyond = (one, heard) => Boolean(one.speech) && (heard === null || one.number > heard);

const keyOf = (turn, sentence) => `${turn}/${sentence}`;

/** Keeps answers. `rowOf` returns the element of a turn's answer. */
export function answers(rowOf) {
  /** Sentences by turn and number. */
  const sentences = new Map();
  /** The blocks of each turn's answer: text of one style, up to the end of a paragraph. */
  const blocks = new Map();

  const place = (turn, sentence) => {
    const all = blocks.get(turn) ?? [];
    blocks.set(turn, all);
    // Punctuation alone belongs to the text around it.
    const quiet = !sentence.speech && /[\p{L}\p{N}`]/u.test(sentence.text);
    const style = [quiet ? "quiet-part" : "", sentence.unheard ? "unheard" : ""].filter(Boolean).join(" ");
    const last = all.at(-1);
    // Code has empty lines inside.
    const ended = !last || last.style !== style || (!quiet && (/\n\s*\n\s*$/.test(last.text) || /^\s*\n\s*\n/.test(sentence.text)));
    if (ended) {
      const element = make("div", `spoken-block ${style}`);
      rowOf(turn).append(element);
      all.push({ style, element, text: sentence.text });
    } else {
      last.text += sentence.text;
    }
    return all.at(-1);
  };
  const show = (block) => block.element.replaceChildren(drawn(block.text));
  const known = (turn, sentence) => sentences.get(keyOf(turn, sentence));
  /** True if two parts are of one sentence: the first one is a clause of it. */
  const joins = (first, second) =>
    Boolean(first?.speech && first.text && second?.speech && second.text) &&
    !ENDS.test(first.text) && !/\n\s*$/.test(first.text) && !/^\s*\n/.test(second.text);

  return {
    get: known,
    /** Returns the parts of the whole sentence that a part belongs to, with their words. */
    caption(turn, sentence) {
      let [first, last] = [sentence, sentence];
      const isFull = () => last - first + 1 >= CAPTION_MAX;
      while (!isFull() && joins(known(turn, first - 1), known(turn, first))) first -= 1;
      while (!isFull() && joins(known(turn, last), known(turn, last + 1))) last += 1;
      return Array.from({ length: last - first + 1 }, (_, at) => known(turn, first + at));
    },
    /** True if no sentence with speech follows this one. */
    isLast: (turn, heard) => ![...sentences.values()].some((one) => one.turn === turn && isBeyond(one, heard)),
    /** Adds a sentence. */
    add({ turn, sentence, text, speech, emotions, anew }) {
      if (anew) {
        for (const block of blocks.get(turn) ?? []) block.element.remove();
        blocks.delete(turn);
        for (const [key, one] of sentences) if (one.turn === turn) sentences.delete(key);
      }
      const words = plain(text, NAMES) || speech;
      const added = { turn, number: sentence, text, speech, words, emotions: emotions ?? [], unheard: false };
      sentences.set(keyOf(turn, sentence), added);
      // Announcements of tools have no text.
      if (text) show(place(turn, added));
    },
    /** Marks the sentences that were not heard, and forgets those of other turns. */
    cut(turn, heard) {
      for (const [key, one] of sentences) {
        if (one.turn !== turn) sentences.delete(key);
        else one.unheard = isBeyond(one, heard);
      }
      for (const block of blocks.get(turn) ?? []) block.element.remove();
      blocks.clear();
      for (const one of sentences.values()) if (one.text) place(turn, one);
      for (const block of blocks.get(turn) ?? []) show(block);
    },
  };
}
