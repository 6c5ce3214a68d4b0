// What was said to and by models for one turn, and what the log has of it: read when a turn is opened.

import { make } from "./dom.js";

const PATIENCE = 4000;

/** Fills `box` for the turn of this number. */
export async function tell(box, number) {
  const told = await read(number).catch(() => null);
  if (!told) return;
  const key = JSON.stringify(told);
  if (box.dataset.told === key) return;
  box.dataset.told = key;
  const open = new Set([...box.querySelectorAll("details[open]")].map((one) => one.dataset.name));
  const parts = told.calls.map((call, n) => folded(`call ${n}`, callTitle(call, n), callBody(call)));
  if (!told.texts) parts.push(make("p", "untold", "Prompts and answers are kept here when log.content is on."));
  else if (told.calls.length === 0) parts.push(make("p", "untold", "No prompt is kept of this turn."));
  if (told.log.length) parts.push(folded("log", `Log: ${told.log.length} ${told.log.length === 1 ? "line" : "lines"}`, [make("pre", "log-lines", told.log.join("\n"))]));
  box.replaceChildren(...parts);
  for (const one of box.querySelectorAll("details")) one.open = open.has(one.dataset.name);
}

async function read(number) {
  const response = await fetch(`/api/v1/turns/${number}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  return response.ok ? response.json() : null;
}

function folded(name, title, body) {
  const element = make("details", "said", make("summary", "", title), ...body);
  element.dataset.name = name;
  return element;
}

function callTitle({ model, answer, tools, error }, n) {
  const what = error ? "failed" : tools?.length ? `asked for ${tools.length} ${tools.length === 1 ? "tool" : "tools"}` : answer === null ? "is asked" : "answered";
  return `Prompt and answer ${n + 1}: ${model} ${what}`;
}

function callBody({ prompt, answer, tools = [], error }) {
  const line = (who, text, classes = "") => make("div", `said-line ${classes}`, make("span", "who", who), make("pre", "", text));
  const lines = prompt.map(({ role, text }) => line(role, text));
  lines.push(...tools.map((wish) => line("wants", wish, "raw")));
  if (answer) lines.push(line("raw answer", answer, "raw"));
  if (error) lines.push(line("failed", error, "bad"));
  return lines;
}
