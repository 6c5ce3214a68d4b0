// The answers of a conversation: sentences are joined and drawn like the messages of a chat.

import { draw } from "./text.js";
import { make } from "/dashboard/dom.js";

/** Answers name no members, roles or channels. */
const NAMES = { member: () => null, role: () => null, channel: () => null };

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
  const show = (block) => block.element.replaceChildren(draw(block.text, NAMES));

  return {
    get: (turn, sentence) => sentences.get(keyOf(turn, sentence)),
    /** Adds a sentence. */
    add({ turn, sentence, text, speech, emotions, anew }) {
      if (anew) {
        for (const block of blocks.get(turn) ?? []) block.element.remove();
        blocks.delete(turn);
        for (const [key, known] of sentences) if (known.turn === turn) sentences.delete(key);
      }
      const known = { turn, number: sentence, text, speech, emotions: emotions ?? [], unheard: false };
      sentences.set(keyOf(turn, sentence), known);
      // Announcements of tools have no text.
      if (text) show(place(turn, known));
    },
    /** Marks the sentences that were not heard, and forgets those of other turns. */
    cut(turn, heard) {
      for (const [key, known] of sentences) {
        if (known.turn !== turn) sentences.delete(key);
        else known.unheard = Boolean(known.speech) && (heard === null || known.number > heard);
      }
      for (const block of blocks.get(turn) ?? []) block.element.remove();
      blocks.clear();
      for (const known of sentences.values()) if (known.text) place(turn, known);
      for (const block of blocks.get(turn) ?? []) show(block);
    },
  };
}
