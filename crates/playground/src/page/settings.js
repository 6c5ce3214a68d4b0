// The panel of a member's own settings: one form with the fields of all pages of the bot's dialogue. The page is a client
// of Discord here: it runs /settings, presses the buttons of the answer, and dismisses the answer.

import { ask } from "./asking.js";
import { inputOf, row } from "./form.js";
import { created } from "./list.js";
import { plain } from "./text.js";
import { view } from "./view.js";
import { at, world } from "./world.js";
import { make } from "/dashboard/dom.js";

/** Timeout of an answer of the bot. */
const ANSWER_MS = 3300;
/** The flag of a message that the bot has not written yet. */
const LOADING = 128;
const PAGE = /^settings:\d+$/;

/** The messages that answered the panel: no list shows them. */
const mine = new Set();
/** Private messages of the bot that arrived while the panel awaits one; null otherwise. */
let held = null;

/** The actions that run; a panel can be closed and opened while one runs. */
let attempts = 0;

/** True if a message belongs to the panel, or may belong to it while the panel awaits an answer. */
export function claims(message) {
  if (mine.has(message.id)) return true;
  if (!held || message.author !== world.bot || message.only_for !== world.me) return false;
  held.push(message);
  return true;
}

/** Wires the button of the panel. */
export function watchSettings() {
  at("settings").addEventListener("click", open);
}

async function open() {
  const by = { member: world.me, channel: world.here };
  const status = make("p", "hint", "Reading…");
  status.setAttribute("role", "status");
  const [close, save] = [make("button", "press", "Close"), make("button", "press style-1", "Save")];
  const fields = make("div", "");
  const form = make("form", "", fields, status, make("p", "ends", close, save));
  form.autocomplete = "off";
  close.type = "button";
  close.addEventListener("click", () => at("panel").close());
  const title = make("h2", "", `Settings of ${world.members.get(by.member)?.name ?? "this member"}`);
  title.id = "panel-title";
  const panel = { by, status, fields, save, pages: [], inputs: [] };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(panel, () => send(panel));
  });
  at("panel").replaceChildren(title, make("p", "", "They apply to all answers to this member, in every channel."), form);
  at("panel").showModal();
  await attempt(panel, () => read(panel));
  panel.inputs[0]?.focus();
}

/** Shows the result of an action, or the reason of its failure. */
async function attempt({ status, save }, action) {
  save.disabled = true;
  attempts += 1;
  held ??= [];
  try {
    status.textContent = await action();
    status.className = "hint";
  } catch (error) {
    status.textContent = error.message;
    status.className = "problem";
  }
  // Answers of other commands came meanwhile.
  attempts -= 1;
  if (attempts === 0) {
    const others = held.filter((message) => !mine.has(message.id));
    held = null;
    others.forEach(created);
  }
  save.disabled = false;
}

/** Reads all pages, and draws their fields. Typed values that are not stored stay. */
async function read(panel) {
  const list = await answerTo("/playground/commands", { ...panel.by, name: "settings", options: {} });
  const buttons = (list.message?.components ?? []).flatMap((line) => line.components ?? []).filter((part) => PAGE.test(part.custom_id));
  const press = (part) => answerTo("/playground/presses", { ...panel.by, message: list.message.id, custom_id: part.custom_id, values: [] });
  const pages = [];
  for (const button of buttons) pages.push(await press(button));
  await Promise.all([list, ...pages].map((answer) => dismiss(answer.message, panel.by)));
  const typed = new Map(panel.inputs.filter(isChanged).map((input) => [input.name, input]));
  panel.pages = pages.filter((page) => page.form);
  panel.inputs = [];
  const lines = panel.pages.flatMap((page) => page.form.components.map((part) => {
    const input = inputOf(part.component, false);
    const before = typed.get(input.name);
    input.dataset.stored = input.value;
    if (before?.dataset.stored === input.value) input.value = before.value;
    panel.inputs.push(input);
    return row(part, input);
  }));
  panel.fields.replaceChildren(...lines);
  return lines.length ? "" : "No setting can be changed here.";
}

function isChanged(input) {
  return input.value !== input.dataset.stored;
}

/** Sends the pages with a changed field. Returns the answers of the bot. */
async function send(panel) {
  const told = [];
  for (const { id, form } of panel.pages) {
    const names = form.components.map((part) => part.component.custom_id);
    const inputs = panel.inputs.filter((input) => names.includes(input.name));
    if (!inputs.some(isChanged)) continue;
    const values = Object.fromEntries(inputs.map((input) => [input.name, input.value]));
    const { message } = await answerTo("/playground/forms", { ...panel.by, interaction: id, values });
    told.push(plain(message?.content ?? "", view.names));
    await dismiss(message, panel.by);
  }
  // Another model may serve other settings.
  if (told.length) await read(panel);
  return told.join("\n") || "Nothing changed.";
}

/** Begins an interaction, and returns the bot's answer. */
async function answerTo(path, what) {
  const { id } = await ask("POST", path, what);
  for (let wait = 50; wait < ANSWER_MS; wait *= 2) {
    await new Promise((done) => setTimeout(done, wait));
    const told = await ask("GET", `/playground/interactions/${id}`);
    if (told.message) mine.add(told.message.id);
    if (told.answered && !(told.message?.flags & LOADING)) return { id, ...told };
  }
  throw new Error("The bot did not answer within three seconds.");
}

function dismiss(message, { member, channel }) {
  return message && ask("DELETE", `/playground/messages/${channel}/${message.id}?member=${member}`).catch(() => null);
}
