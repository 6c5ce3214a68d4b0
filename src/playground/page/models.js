// Models of this machine, offered in place of the demo model.

import { ask } from "./asking.js";
import { complain } from "./composer.js";
import { inside } from "./inside.js";
import { at } from "./world.js";
import { make } from "/dashboard/dom.js";

const LOOK_MS = 8000;

let shown = "";

async function look() {
  if (document.hidden) return;
  const told = await ask("GET", "/playground/models").catch(() => null);
  // What does not change is not drawn again: somebody may be choosing.
  if (!told || JSON.stringify(told) === shown) return;
  shown = JSON.stringify(told);
  draw(told);
}

function draw({ offers, chosen }) {
  at("models").hidden = !chosen && offers.length === 0;
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
  await ask("POST", "/playground/models", { choice }, { "X-Staffai-Chaos": inside.chaos.token() });
  await look();
}

/** Looks for models of this machine for as long as the page is open. */
export function watchModels() {
  look();
  setInterval(look, LOOK_MS);
}
