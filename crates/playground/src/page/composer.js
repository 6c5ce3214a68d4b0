// The message box: mentions with suggestions, replies, edits, and sending.

import { beingTyped, commandName, commandOffers, isWhole, memberTyped, parseCommand } from "./commands.js";
import { dropFiles, encodedFiles, startFiles, waitingFiles } from "./files.js";
import { avatar } from "./message.js";
import { make } from "/dashboard/dom.js";

const LETTERS = 2000;
const WARN_AT = 1800;
const SUGGESTIONS = 12;
/** Interval of typing notifications. */
const TYPING_MS = 8000;

const form = document.getElementById("composer");
const draft = document.getElementById("draft");
const suggest = document.getElementById("suggest");
const answering = document.getElementById("answering");
const answeringText = document.getElementById("answering-text");
const problem = document.getElementById("problem");
const hint = document.getElementById("hint");
const count = document.getElementById("count");
const mentionButton = document.getElementById("mention");
const send = document.getElementById("send");

let hooks;
/** The mode of the box: nothing, or `{kind: "reply" | "edit", id, label}`. */
let aim = null;
let options = [];
/** The suggestion that Enter takes; if negative, Enter sends. */
let chosen = 0;
let typedAt = 0;
let kept = "";
let sending = false;

/**
 * Initializes the box. `with_` has `people()` (mentionable: `{name, token, member?, note}`), `commands()` and `learn()`
 * (the commands, and a refresh), `choices(typing)` (the bot's choices), `run(command)`, `reaches(text, replyTo)` (true
 * if the bot is addressed), `say(text, replyTo, files)`, `change(id, text)`, `types()` and `lastOwn()`.
 */
export function startComposer(with_) {
  hooks = with_;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  draft.value = remembered();
  draft.addEventListener("input", () => {
    hint.hidden = true;
    grow();
    remember();
    offer();
    tellTyping();
  });
  draft.addEventListener("keydown", onKey);
  draft.addEventListener("blur", () => setTimeout(close, 150));
  draft.addEventListener("click", offer);
  document.getElementById("answering-cancel").addEventListener("click", cancel);
  mentionButton.addEventListener("click", () => insert(`${mentionButton.textContent} `));
  window.addEventListener("resize", grow);
  document.addEventListener("keydown", typedElsewhere);
  startFiles(grow, complain);
  grow();
}

/** Shows the bot's name on its button and a hint in the box. */
export function invite(channelName, memberName, botName, alone) {
  mentionButton.textContent = `@${botName}`;
  mentionButton.hidden = alone;
  const words = alone ? `Message ${botName}` : `Mention @${botName} to talk to it`;
  // Phones have no room for more beside the buttons.
  draft.placeholder = matchMedia("(max-width: 480px)").matches ? "Your message" : words;
  draft.setAttribute("aria-label", `Message in ${channelName} as ${memberName}`);
}

/** Begins a reply. */
export function replyTo(id, name) {
  aimAt({ kind: "reply", id, label: `Replying to ${name}` });
}

/** Begins an edit of an own message. */
export function editMessage(id, wire) {
  if (!aim) kept = draft.value;
  aimAt({ kind: "edit", id, label: "Editing your message" });
  draft.value = fromWire(wire);
  grow();
}

/** Ends a reply or edit when its message is gone or the place changes. */
export function forget(id) {
  if (id === undefined) hint.hidden = true;
  if (aim && (id === undefined || aim.id === id)) cancel();
}

/** Puts a text into an empty box, to be edited and sent again. */
export function takeUp(wire) {
  if (draft.value.trim() !== "" || aim) return;
  draft.value = fromWire(wire);
  remember();
  grow();
  draft.focus();
}

/** Sends a text as if it had been typed. */
export function sayNow(text) {
  draft.value = text;
  remember();
  grow();
  draft.focus();
  return submit();
}

/** Keeps the draft over a reload of the page. */
function remember() {
  try {
    sessionStorage.setItem("playground.draft", aim?.kind === "edit" ? kept : draft.value);
  } catch {
    // Without browser storage the box starts empty.
  }
}

function remembered() {
  try {
    return sessionStorage.getItem("playground.draft") ?? "";
  } catch {
    return "";
  }
}

function aimAt(next) {
  if (aim?.kind === "edit") cancel();
  aim = next;
  answeringText.textContent = next.label;
  answering.hidden = false;
  draft.focus();
}

function cancel() {
  if (aim?.kind === "edit") {
    draft.value = kept;
    kept = "";
  }
  aim = null;
  answering.hidden = true;
  grow();
  if (document.activeElement !== document.body) draft.focus();
}

async function submit() {
  const text = toWire(draft.value.trim());
  if ((text === "" && waitingFiles() === 0) || sending) return;
  if ([...text].length > LETTERS) {
    complain(`A message has at most ${LETTERS} characters.`);
    return;
  }
  sending = true;
  hint.hidden = true;
  try {
    if (aim?.kind === "edit") await hooks.change(aim.id, text);
    else await sayOrRun(text);
    problem.hidden = true;
    draft.value = "";
    remember();
    if (aim) cancel();
    typedAt = 0;
    grow();
    close();
  } catch (error) {
    complain(error.message);
  } finally {
    sending = false;
  }
}

async function sayOrRun(text) {
  const command = waitingFiles() === 0 && (await commandIn(text));
  if (command) {
    await hooks.run(command);
    return;
  }
  const heard = hooks.reaches(text, aim?.kind === "reply" ? aim.id : null);
  await hooks.say(text, aim?.kind === "reply" ? aim.id : null, await encodedFiles());
  dropFiles();
  if (!heard) advise();
}

/** Parses a command; an unknown name is an error. */
async function commandIn(text) {
  const name = commandName(text);
  if (!name) return null;
  // The bot may have registered it meanwhile.
  if (!parseCommand(text, hooks.commands())) await hooks.learn();
  const command = parseCommand(text, hooks.commands());
  if (command) return command;
  const known = hooks.commands().map((one) => `/${one.name}`);
  const near = known.filter((one) => one.startsWith(`/${name.slice(0, 3)}`));
  throw new Error(`There is no command /${name}. ${near.length ? "Similar" : "Known"}: ${(near.length ? near : known).join(", ")}.`);
}

/** Reports that the bot was not addressed, until the next input. */
function advise() {
  hint.textContent = `${mentionButton.textContent.slice(1)} was not addressed, so it may not answer: mention ${mentionButton.textContent}, or reply to one of its messages.`;
  hint.hidden = false;
}

/** Shows an error below the box. */
export function complain(text) {
  problem.textContent = text;
  problem.hidden = false;
}

/** Typing without a focused field goes into the box, as in other chats. A space scrolls or presses as usual. */
function typedElsewhere(event) {
  const plain = event.key.length === 1 && event.key !== " " && !event.ctrlKey && !event.metaKey && !event.altKey;
  const field = event.target.closest?.("input:not([type=radio]), textarea, select, [contenteditable], dialog");
  if (plain && !field && !event.isComposing && !event.defaultPrevented) draft.focus();
}

function onKey(event) {
  if (!suggest.hidden && onSuggestKey(event)) return;
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  } else if (event.key === "Escape" && aim) {
    event.preventDefault();
    cancel();
  } else if (event.key === "ArrowUp" && draft.value === "" && !aim) {
    const own = hooks.lastOwn();
    if (own) {
      event.preventDefault();
      editMessage(own.id, own.content);
    }
  }
}

function onSuggestKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    chosen = chosen < 0 && step < 0 ? options.length - 1 : (chosen + step + options.length) % options.length;
    drawOptions();
  } else if (event.key === "Tab" || (event.key === "Enter" && chosen >= 0)) {
    take(options[Math.max(chosen, 0)]);
  } else if (event.key === "Escape") {
    close();
  } else {
    return false;
  }
  event.preventDefault();
  return true;
}

/** Suggests names if the word before the caret begins with an at sign. */
function offer() {
  const before = draft.value.slice(0, draft.selectionStart);
  // The input may have changed meanwhile.
  if (before === "/") hooks.learn().then(() => (draft.value === "/" ? offerCommands("/") : draft.value.startsWith("/") && offer()));
  const typing = before.startsWith("/") && beingTyped(before, hooks.commands());
  if (typing) {
    offerChoices(typing, before);
    return;
  }
  const wanted = before.startsWith("/") ? memberTyped(before, hooks.commands()) : null;
  if (wanted !== null) {
    offerMembers(wanted);
    return;
  }
  if (before.startsWith("/") && offerCommands(before)) return;
  const match = before.match(/(?:^|[^\w@])@([\p{L}\p{N}_-]*)$/u);
  if (!match) {
    close();
    return;
  }
  const begun = match[1].toLowerCase();
  options = hooks.people().filter((person) => person.name.toLowerCase().startsWith(begun)).slice(0, SUGGESTIONS);
  chosen = 0;
  const done = options.length === 1 && options[0].name.toLowerCase() === begun;
  if (options.length === 0 || done) close();
  else drawOptions();
}

function offerCommands(before) {
  options = commandOffers(before, hooks.commands()).slice(0, SUGGESTIONS);
  chosen = isWhole(before, hooks.commands()) ? -1 : 0;
  if (options.length === 0) close();
  else drawOptions();
  return options.length > 0;
}

/** Members for a member option, by a prefix of their names. */
function offerMembers(typed) {
  const fitting = hooks.people().filter((person) => person.member && person.name.toLowerCase().startsWith(typed.toLowerCase()));
  options = fitting.slice(0, SUGGESTIONS).map((person) => ({ ...person, insert: `@${person.name} `, typed }));
  chosen = 0;
  if (options.length === 0) close();
  else drawOptions();
}

/** Choices from the bot; requested again if the input changed meanwhile. */
async function offerChoices(typing, before) {
  const offered = await hooks.choices(typing);
  if (draft.value.slice(0, draft.selectionStart) !== before) return;
  options = offered.slice(0, SUGGESTIONS).map((choice) => ({ name: choice.name, note: typing.option, insert: `${choice.value} `, typed: typing.typed }));
  chosen = 0;
  const done = options.length === 1 && options[0].name === typing.typed.trim();
  if (options.length === 0 || done) close();
  else drawOptions();
}

function drawOptions() {
  suggest.replaceChildren(...options.map((person, n) => {
    const sign = person.command ? "/" : person.option || "typed" in person ? ":" : "@";
    const face = person.member ? avatar(person.member, "small") : make("span", "avatar small role", sign);
    const item = make("li", n === chosen ? "chosen" : "", face, make("span", "", person.name), make("span", "note", person.note));
    item.id = `suggest-${n}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(n === chosen));
    item.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      take(person);
    });
    return item;
  }));
  suggest.hidden = false;
  if (chosen < 0) draft.removeAttribute("aria-activedescendant");
  else draft.setAttribute("aria-activedescendant", `suggest-${chosen}`);
}

function close() {
  suggest.hidden = true;
  draft.removeAttribute("aria-activedescendant");
}

function take(person) {
  const caret = draft.selectionStart;
  const before = draft.value.slice(0, caret);
  const from = person.command ? 0 : "typed" in person ? caret - person.typed.length : person.option ? before.search(/\S*$/) : before.lastIndexOf("@");
  draft.setRangeText(person.insert ?? `@${person.name} `, from, caret, "end");
  close();
  grow();
  if (person.command || person.option) offer();
  draft.focus();
}

function insert(text) {
  const caret = draft.selectionStart;
  const before = draft.value.slice(0, caret);
  const gap = before === "" || /\s$/.test(before) ? "" : " ";
  draft.setRangeText(gap + text, caret, draft.selectionEnd, "end");
  grow();
  draft.focus();
}

function grow() {
  draft.style.height = "auto";
  draft.style.height = `${draft.scrollHeight}px`;
  const letters = [...draft.value].length;
  count.textContent = letters >= WARN_AT ? `${LETTERS - letters}` : "";
  count.classList.toggle("over", letters > LETTERS);
  send.classList.toggle("ready", draft.value.trim() !== "" || waitingFiles() > 0);
}

function tellTyping() {
  const now = performance.now();
  if (draft.value.trim() === "" || draft.value.startsWith("/") || aim?.kind === "edit" || (typedAt && now - typedAt < TYPING_MS)) return;
  typedAt = now;
  hooks.types();
}

/** Replaces names by the protocol's tokens, except in code. */
function toWire(text) {
  const people = [...hooks.people()].sort((a, b) => b.name.length - a.name.length);
  const escaped = people.map((person) => person.name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (escaped.length === 0) return text;
  const names = new RegExp(`(?<![\\w<@])@(${escaped.join("|")})(?![\\p{L}\\p{N}_])`, "giu");
  const token = (name) => people.find((person) => person.name.toLowerCase() === name.toLowerCase()).token;
  return text
    .split(/(```[\s\S]*?```|`[^`\n]*`)/)
    .map((part, n) => (n % 2 ? part : part.replace(names, (all, name) => token(name))))
    .join("");
}

function fromWire(text) {
  return hooks.people().reduce((known, person) => known.replaceAll(person.token, `@${person.name}`), text);
}
