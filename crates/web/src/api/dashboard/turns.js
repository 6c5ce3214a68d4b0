// The last turns as timelines: queued in the lane, awaiting a permit, the model, tools, posting.

import { ago, duration, make, mark } from "./dom.js";
import { endOfStep, pathLines } from "./path.js";
import { showTexts } from "./transcript.js";

/** Minimum length of a full bar, in milliseconds. */
const SHORTEST = 500;
/** Time after a turn until all of its log is available. */
const LOG_MS = 1000;
/** The kinds of segments in order, with their meaning. */
export const STRETCHES = [
  ["queued", "queued", "it waits for the earlier questions of its member in this channel"], ["admitted", "preparing", "it waits for a free model permit, or prepares and checks the answer"],
  ["model", "model", "a model is asked"], ["tool", "tools", "a tool runs"],
  ["gate", "decision", "it waits for a member to approve a call"], ["posted", "posting", "the answer is being posted"],
];
const SIGNS = { open: "…", replied: "✓", hinted: "✓", refused: "–", dropped: "–", apologised: "!", failed: "✕", cancelled: "–" };

const KINDS = { gate: "decision about" };

/** The text in the bar of a turn without an answer. */
const WORDS = { refused: "refused", dropped: "dropped", failed: "failed", cancelled: "cancelled" };

/** Creates timelines in `list`, with the scale in `axis`; `replay(turn, reached)` shows the way of a turn again. */
export function turnsView(list, axis, replay) {
  const rows = new Map();
  return {
    show: (turns) => show({ list, axis, rows, replay }, turns),
    /** Opens the turn that answers this message; returns true if it is shown. */
    open: (message) => {
      for (const row of rows.values()) if (row.message !== message) row.details.open = false;
      const row = [...rows.values()].find((one) => one.message === message);
      if (!row) return false;
      row.details.open = true;
      row.element.scrollIntoView({ block: "nearest" });
      mark(row.element, "changed");
      row.details.firstElementChild.focus({ preventScroll: true });
      return true;
    },
  };
}

function show(view, turns) {
  const full = scale(turns);
  drawAxis(view.axis, full, turns.length > 0);
  const kept = new Set(turns.map(keyOf));
  for (const [number, row] of view.rows) {
    if (kept.has(number)) continue;
    row.element.remove();
    view.rows.delete(number);
  }
  let after = null;
  for (const turn of turns) {
    let row = view.rows.get(keyOf(turn));
    if (!row) {
      row = newRow(turn, view.replay);
      view.rows.set(keyOf(turn), row);
    }
    fill(row, turn, full);
    const next = after ? after.nextSibling : view.list.firstChild;
    if (next !== row.element) view.list.insertBefore(row.element, next);
    after = row.element;
  }
}

/** The key of a turn: each process numbers its own. */
function keyOf(turn) {
  return turn.earlier ? `${turn.at} ${turn.number}` : turn.number;
}

function endOf(turn) {
  return turn.ended_ms ?? turn.age_ms;
}

/** The duration of a turn without the time it awaited approvals. */
function worked(turn) {
  const decided = turn.steps.map((step, n) => (step.kind === "gate" ? (endOfStep(turn, n).to ?? endOf(turn)) - step.from_ms : 0));
  return decided.reduce((left, waited) => left - waited, endOf(turn));
}

/** The duration of a full bar: close to the longest turn, so that a single slow one does not flatten the others. */
function scale(turns) {
  const lengths = turns.map(worked).sort((a, b) => a - b);
  const high = lengths[Math.ceil((lengths.length - 1) * 0.9)] ?? SHORTEST;
  const wanted = Math.max(SHORTEST, high * 1.08);
  const unit = 10 ** Math.floor(Math.log10(wanted));
  return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map((step) => step * unit).find((step) => step >= wanted);
}

function drawAxis(axis, full, any) {
  axis.hidden = !any;
  const labels = [0, full / 2, full].map((at) => (at === 0 ? "0" : duration(at)));
  const told = labels.join("|");
  if (axis.dataset.told === told) return;
  axis.dataset.told = told;
  axis.replaceChildren(...labels.map((label) => make("span", "", label)));
}

function newRow(turn, replay) {
  const parts = {
    sign: make("span", "sign"), trigger: make("span", "trigger"), bar: make("span", "bar"), took: make("span", "took"), when: make("span", "when"),
    more: make("div", "more-of-turn"), texts: make("div", "texts-of-turn"),
  };
  const number = make("span", "number", `#${turn.number}`);
  number.title = turn.earlier ? "its number among the turns of an earlier bot process" : "its number among the turns of this bot process";
  parts.trigger.title = "its trigger: a mention, a reply, a direct message, a timer";
  parts.took.title = "from its acceptance to the last part of its answer";
  parts.when.title = "when it was accepted";
  const head = make("summary", "turn-head", parts.sign, number, parts.trigger, parts.bar, parts.took, parts.when);
  const details = make("details", "turn", head, parts.more, parts.texts);
  const row = { element: make("li", "arrived", details), details, parts, told: "", message: turn.message, turn, replay };
  const read = () => details.open && !row.turn.earlier && showTexts(parts.texts, row.turn);
  details.addEventListener("toggle", () => {
    read();
    // The last log lines arrive shortly after the end.
    setTimeout(read, LOG_MS);
  });
  return row;
}

function fill(row, turn, full) {
  const { parts, details } = row;
  parts.when.textContent = `${ago(turn.age_ms)} ago`;
  row.message = turn.message;
  row.turn = turn;
  const told = `${turn.at} ${full} ${turn.ended_ms ? "" : turn.age_ms} ${turn.outcome} ${turn.steps.length} ${turn.answered_ms} ${turn.visible_ms} ${turn.counted?.tokens}`;
  if (told === row.told) return;
  row.told = told;
  details.className = `turn ${turn.outcome}${turn.earlier ? " of-earlier-life" : ""}`;
  parts.sign.textContent = SIGNS[turn.outcome] ?? "?";
  parts.sign.title = turn.outcome;
  parts.trigger.textContent = turn.trigger;
  parts.took.textContent = duration(endOf(turn));
  const pieces = stretches(turn).map((piece) => {
    const element = make("i", `stretch ${piece.kind}${piece.failed ? " bad" : ""}`);
    element.style.left = `${Math.min(100, (piece.from / full) * 100)}%`;
    element.style.width = `${Math.max(0, (Math.min(piece.to, full) - piece.from) / full) * 100}%`;
    return element;
  });
  if (turn.visible_ms !== null) {
    const first = make("i", "visible");
    first.style.left = `${Math.min(100, (turn.visible_ms / full) * 100)}%`;
    pieces.push(first);
  }
  const word = WORDS[turn.outcome];
  if (word) pieces.push(make("span", "word", turn.reason ? `${word}: ${turn.reason}` : word));
  parts.bar.replaceChildren(...pieces);
  parts.bar.classList.toggle("over", endOf(turn) > full);
  parts.bar.title = stretches(turn).map((piece) => `${piece.label}: ${duration(piece.to - piece.from)}`).join("\n");
  parts.more.replaceChildren(...explained(row));
  if (details.open && !turn.earlier) showTexts(parts.texts, turn);
}

/** The segments of a turn; tools that run concurrently may overlap. */
function stretches(turn) {
  const end = endOf(turn);
  const known = turn.answered_ms ?? end;
  const out = [{ kind: "queued", label: "queued", from: 0, to: turn.started_ms ?? known }];
  let at = out[0].to;
  turn.steps.forEach((step, n) => {
    if (step.from_ms > at) out.push({ kind: "admitted", label: "preparing", from: at, to: step.from_ms });
    const { to: over, cut } = endOfStep(turn, n);
    const to = over ?? known;
    out.push({ kind: step.kind, label: `${KINDS[step.kind] ?? step.kind} ${step.name}`, from: step.from_ms, to, failed: step.failed || cut });
    at = Math.max(at, to);
  });
  if (turn.started_ms !== null && known > at) out.push({ kind: "admitted", label: "preparing", from: at, to: known });
  if (turn.answered_ms !== null) out.push({ kind: "posted", label: "posting", from: turn.answered_ms, to: end });
  return out.filter((piece) => piece.to > piece.from);
}

/** The button that shows the way of an ended turn again, on the tree and in the list of its stops. */
function replayButton(row, path) {
  const button = make("button", "quiet replay", "▶ Replay");
  Object.assign(button, { type: "button", title: "Shows the way of this turn through the tree again" });
  button.addEventListener("click", () => row.replay(row.turn, (at) => {
    for (const line of path.children) line.classList.toggle("now", at !== undefined && line.dataset.stops.split(" ").includes(String(at)));
  }));
  return button;
}

function explained(row) {
  const { turn } = row;
  const ends = [];
  if (turn.visible_ms !== null) ends.push(make("p", "", make("i", "swatch visible"), `first words visible after ${duration(turn.visible_ms)}`));
  ends.push(make("p", "", `${turn.outcome}${turn.reason ? `: ${turn.reason}` : ""}, ${new Date(turn.at).toLocaleTimeString()}`));
  ends.push(make("p", "", spentWhere(turn)), make("p", "ids", idsOf(turn)));
  const path = pathLines(turn);
  return [path, ...(turn.ended_ms !== null ? [replayButton(row, path)] : []), ...ends];
}

/** Summarizes the time of a turn in one line. */
function spentWhere(turn) {
  const parts = [["queue", turn.lane_ms], ["permit", turn.permit_ms], ["model", turn.model_ms], ["tools", turn.tools_ms], ["posting", turn.post_ms]];
  const told = parts.filter(([, took]) => typeof took === "number").map(([part, took]) => `${part} ${duration(took)}`);
  if (turn.model) told.push(`answered by ${turn.model}`);
  return told.join(", ");
}

/** The text in which a search looks. */
function idsOf(turn) {
  const ids = [["message", turn.message], ["channel", turn.place], ["member", turn.member]];
  return ids.filter(([, id]) => id).map(([what, id]) => `${what} ${id}`).join(", ");
}
