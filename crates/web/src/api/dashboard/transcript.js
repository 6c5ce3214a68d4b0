// The prompts and raw answers of one turn, and its log lines; read when a turn is opened.

import { make } from "./dom.js";

const PATIENCE = 4000;
/** The reasons for missing texts. */
const WITHOUT = {
  withheld: "Prompts and raw answers are stored for this page only if log.content allows it.",
  forgotten: "A member requested deletion of their data: earlier prompts, raw answers and log lines were removed.",
  visible: "No prompt of this turn is stored: no model was asked, or the turn is older than ten minutes or forty turns.",
};
/** Fields at the beginning of a line, shown without their names. */
const FRONT = ["timestamp", "level", "actor", "event", "message"];

/** Fills `box` for a turn. */
export async function showTexts(box, { number, ended_ms: ended }) {
  const told = await read(number).catch(() => null);
  if (!told) return;
  const key = JSON.stringify([told, ended === null]);
  if (box.dataset.told === key) return;
  box.dataset.told = key;
  const open = new Set([...box.querySelectorAll("details[open]")].map((one) => one.dataset.name));
  const parts = told.calls.map((call, n) => folded(`call ${n}`, callTitle(call, n, ended !== null), callBody(call)));
  if (told.calls.length === 0) parts.push(make("p", "untold", WITHOUT[told.texts]));
  const many = told.log.length;
  if (many) parts.push(folded("log", `Log: ${many} ${many === 1 ? "line" : "lines"}`, [make("pre", "log-lines", told.log.map(plain).join("\n"))]));
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

function callTitle({ model, answer, tools, error }, n, over) {
  const what = error ? "failed" : tools?.length ? `asked for ${tools.length} ${tools.length === 1 ? "tool" : "tools"}` : answer !== null ? "answered" : over ? "was cut off" : "is asked";
  return `Prompt and raw answer ${n + 1}: ${model} ${what}`;
}

function callBody({ prompt, answer, tools = [], error }) {
  const line = (who, text, classes = "") => make("div", `said-line ${classes}`, make("span", "who", who), make("pre", "", text));
  const lines = prompt.filter(({ text }) => text).map(({ role, text }) => line(role, text));
  lines.push(...tools.map((wish) => line("wants", wish, "raw")));
  if (answer) lines.push(line("raw answer", answer, "raw"));
  if (error) lines.push(line("failed", error, "bad"));
  return lines;
}

/** Formats a log line. A truncated one stays as it is. */
function plain(line) {
  try {
    const fields = JSON.parse(line);
    const rest = Object.entries(fields).filter(([name]) => !FRONT.includes(name) && name !== "turn");
    const front = [fields.timestamp?.slice(11), fields.level, fields.actor, fields.event, fields.message];
    return [...front, ...rest.map(([name, value]) => `${name}=${value}`)].filter(Boolean).join(" ");
  } catch {
    return line;
  }
}
