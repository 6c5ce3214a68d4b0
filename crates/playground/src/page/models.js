// Models on this machine, offered in place of the demo model.

import { ask, keepAsking } from "./asking.js";
import { complain } from "./composer.js";
import { inside } from "./inside.js";
import { at } from "./world.js";
import { make } from "/dashboard/dom.js";

const LOOK_MS = 8000;
/** Number and interval of the polls for a choice to take effect. */
const LOOKS = 40;
const SOON_MS = 250;

let shown = "";
/** The version of the configuration before a choice, until the bot has a new one. */
let before = null;

/** Polls once; returns true if it got a response. */
async function look() {
  const told = await ask("GET", "/playground/models").catch(() => null);
  if (told) Object.assign(told, await inForce());
  // Unchanged content is not redrawn: a selection may be open.
  if (!told || JSON.stringify(told) === shown) return told !== null;
  shown = JSON.stringify(told);
  draw(told);
  return true;
}

/** Returns true for a choice that the bot has not read yet, and the bot's error about it. */
async function inForce() {
  if (before === null) return { waits: false };
  const now = await configuration();
  if (now && now.version !== before) before = null;
  return { waits: before !== null, rejected: (before !== null && now?.rejected) || undefined };
}

async function configuration() {
  const response = await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(LOOK_MS) }).catch(() => null);
  if (!response || response.headers.has("x-staffai-away")) return null;
  return (await response.json().catch(() => null))?.configuration ?? null;
}

function draw({ offers, chosen, waits, rejected, unreachable }) {
  at("models").hidden = !chosen && offers.length === 0 && !waits && !unreachable;
  if (unreachable) {
    const note = make("p", "note bad", unreachable);
    note.setAttribute("role", "status");
    at("models").replaceChildren(title("Model"), note);
    return;
  }
  if (waits) {
    const note = `${chosen ? chosen.model : "The demo model"} is being activated; until then the previous model answers.`;
    at("models").replaceChildren(title("Model"), make("p", "note", note), rejected ? make("p", "note bad", `The bot refuses its configuration: ${rejected}`) : "");
    return;
  }
  if (chosen) {
    const back = button("Back to the demo model", () => choose(null));
    at("models").replaceChildren(title("Model"), make("p", "note", `Answers come from ${chosen.model}.`), back);
    return;
  }
  const select = make("select", "menu", ...offers.flatMap(({ name, url, models }) => models.map((model) => new Option(`${model} (${name})`, JSON.stringify({ url, model })))));
  select.setAttribute("aria-label", "Model");
  const use = button("Use it", () => choose(JSON.parse(select.value)));
  const names = offers.map(({ name }) => name).join(" and ");
  at("models").replaceChildren(title("Model"), make("p", "note", `${names} ${offers.length > 1 ? "answer" : "answers"} on this machine.`), select, use);
}

function title(text) {
  return make("h2", "", text);
}

function button(text, run) {
  const element = make("button", "press style-1", text);
  element.type = "button";
  element.addEventListener("click", async () => {
    element.disabled = true;
    try {
      await run();
    } catch (error) {
      complain(error.message);
    }
    element.disabled = false;
  });
  return element;
}

async function choose(choice) {
  const known = await configuration();
  await ask("POST", "/playground/models", { choice }, { "X-Staffai-Chaos": inside.chaos.token() });
  before = known?.version ?? null;
  // The bot reads its configuration shortly.
  for (let n = 0; n < LOOKS && (n === 0 || before !== null); n += 1) {
    await look();
    await new Promise((done) => setTimeout(done, SOON_MS));
  }
  if (before === null) return;
  // A choice of what is in force already changes no version.
  before = null;
  complain("The bot has not confirmed the change of its model. Each answer names its model.");
  await look();
}

/** Polls for models on this machine while the page is open. */
export function watchModels() {
  keepAsking(look, LOOK_MS);
}
