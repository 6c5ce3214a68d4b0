// Seams: the places in answers at which a crash or a kill interrupted them, and the time until they continued.

import { draw } from "./text.js";
import { duration, make } from "/dashboard/dom.js";

/** Maximum number of remembered answers, of versions of each, and of seams. */
const ANSWERS = 60;
const VERSIONS = 80;
const SEAMS = 80;
/** Maximum number of lookups of one interruption: its log lines may arrive late. */
const LOOKUPS = 5;
const KEPT = "playground.seams";
/** Edits within this time after a kill were on their way before it: a killed bot takes longer to come back. */
const UNDERWAY_MS = 500;

/** The versions of the bot's answers, `{at, text}`, by message. */
const versions = new Map();
/** Seams by message: `{key, text, words}`; `text` was visible at the interruption. */
const seams = recalled();
/** The number of lookups by interruption, and kills that await the next version: message to moment. */
const lookups = new Map();
const killed = new Map();

/** Remembers a version of an answer. Returns true if it has a new seam. */
export function hear(message) {
  if (!message.reply_to) return false;
  const list = versions.get(message.id) ?? [];
  versions.set(message.id, list);
  const now = message.edited_at ?? message.sent_at;
  if (list.at(-1)?.text !== message.content) list.push({ at: now, text: message.content });
  if (list.length > VERSIONS) list.shift();
  if (versions.size > ANSWERS) versions.delete(versions.keys().next().value);
  const moment = killed.get(message.id);
  if (moment === undefined || now < moment + UNDERWAY_MS) return false;
  killed.delete(message.id);
  add(message.id, { key: `kill ${moment}`, text: textAt(message.id, moment + UNDERWAY_MS - 1), words: `the bot was killed here, continued after ${duration(now - moment)}` });
  return true;
}

/** Notes that the bot was killed now, while these answers were growing. */
export function killedWhile(growing) {
  for (const id of growing) killed.set(id, Date.now());
}

/**
 * Looks for interruptions of turns that were not seen before. `strikes` are those of this page, `answerTo(question)`
 * returns the message with the answer, `sewn(message)` is called for one with a new seam.
 */
export async function sew(turns, strikes, { answerTo, sewn }) {
  for (const turn of turns) {
    for (const [n, step] of turn.steps.entries()) {
      const anew = turn.steps.slice(n + 1).some((later) => later.kind === "model" && later.from_ms > step.from_ms);
      const key = `${turn.at} ${turn.number} ${n}`;
      const answer = step.to_ms === null && anew && (lookups.get(key) ?? 0) < LOOKUPS && answerTo(turn.message);
      // Without its versions, the place in the text is unknown.
      if (!answer || !versions.has(answer.id)) continue;
      lookups.set(key, (lookups.get(key) ?? 0) + 1);
      const told = await interruption(turn, step, strikes);
      if (!told) continue;
      lookups.set(key, LOOKUPS);
      add(answer.id, { key, text: textAt(answer.id, told.at), words: told.words });
      sewn(answer);
    }
  }
}

/**
 * Finds when and why a step was interrupted: by the last strike of this page before the turn was offered again. The
 * time is measured from the order of the strike until the turn was offered again.
 */
async function interruption(turn, step, strikes) {
  const detail = await read(`/api/v1/turns/${turn.number}`);
  const begun = Date.parse(turn.at) + step.from_ms;
  const resumed = (detail?.log ?? []).map(parsed).filter((line) => line.event === "turn.resumed").map((line) => Date.parse(line.timestamp)).find((moment) => moment > begun);
  if (!resumed) return null;
  const strike = strikes.findLast((one) => one.at >= begun - 1 && one.at <= resumed);
  if (!strike) return { at: resumed, words: "the turn was interrupted here, and offered again" };
  const actor = strike.actor.split("/").at(-1).split(":")[0];
  return { at: strike.at, words: `${actor} ${strike.kind === "freeze" ? "froze" : "crashed"} here, continued after ${duration(Math.max(1, resumed - strike.at))}` };
}

async function read(path) {
  const response = await fetch(path, { cache: "no-store" }).catch(() => null);
  return response?.ok ? response.json().catch(() => null) : null;
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return {};
  }
}

function textAt(id, moment) {
  return versions.get(id)?.findLast((version) => version.at <= moment)?.text ?? "";
}

function add(id, seam) {
  const list = seams.get(id) ?? [];
  if (list.some((other) => other.key === seam.key)) return;
  seams.set(id, [...list, seam]);
  if (seams.size > SEAMS) seams.delete(seams.keys().next().value);
  remember();
}

/** Draws the seams of a message into its text. `names` are those that the text was drawn with. */
export function stitch(body, message, names) {
  for (const seam of seams.get(message.id) ?? []) {
    const line = make("span", "seam", make("span", "seam-words", seam.words));
    line.setAttribute("role", "note");
    const close = make("button", "seam-close", "✕");
    Object.assign(close, { type: "button", title: "Remove this mark" });
    close.setAttribute("aria-label", `Remove this mark: ${seam.words}`);
    close.addEventListener("click", () => {
      const item = line.closest("li");
      line.remove();
      remove(message.id, seam.key);
      item?.focus?.();
    });
    line.append(close);
    insertAt(body, draw(message.content.slice(0, common(seam.text, message.content)), names).textContent.length, line);
  }
}

/** Length of the common beginning of two texts. */
function common(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n += 1;
  return n;
}

/** Inserts an element after this many characters of text, before a block of code rather than in it. */
function insertAt(body, letters, element) {
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
  let left = letters;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest(".seam")) continue;
    if (left >= node.length) {
      left -= node.length;
      continue;
    }
    const figure = node.parentElement.closest("figure");
    if (figure) figure.before(element);
    else if (left === 0) (node.parentElement === body ? node : topOf(node, body)).before(element);
    else node.splitText(left).before(element);
    return;
  }
  (body.lastElementChild?.tagName === "P" ? body.lastElementChild : body).append(element);
}

/** The outermost element that begins with a text. */
function topOf(node, body) {
  let top = node;
  while (top.parentElement !== body && top.parentElement.firstChild === top) top = top.parentElement;
  return top;
}

function remove(id, key) {
  seams.set(id, (seams.get(id) ?? []).filter((seam) => seam.key !== key));
  remember();
}

/** Seams outlive a reload of the page: the versions of an answer do not. */
function remember() {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([...seams]));
  } catch {
    // Without browser storage a reload removes the seams.
  }
}

function recalled() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"));
  } catch {
    return new Map();
  }
}
