// One actor in detail: its state, its history, its last failures, and its row of the tree.

import { ago, duration, make, short } from "./dom.js";
import { rises } from "./past.js";
import { draw, spark } from "./spark.js";

const PATIENCE = 4000;
/** Each sparkline: its name, the field of a sample, true for a counter, and the formatter. */
const LINES = [
  ["mailbox", "mailbox", false, String, "messages in its mailbox"],
  ["restarts", "restarts", true, String, "restarts, from sample to sample"],
  ["p50", "p50", false, micros, "how long its handler usually runs: the median between two samples"],
  ["p99", "p99", false, micros, "how long its handler runs: 99 of 100 take no longer"],
];

function micros(value) {
  return duration(value / 1000);
}

/** Creates the detail of an actor. `past` has the samples. */
export function detailOf(path, past) {
  const lines = LINES.map(([name, , , , title]) => {
    const parts = { line: spark("of-actor"), most: make("span", "most", "") };
    const row = make("div", "spark-row", make("span", "spark-name", name), parts.line, parts.most);
    row.title = title;
    return { row, ...parts };
  });
  const role = make("p", "role");
  const shared = make("p", "shared", "For all actors of this kind:");
  shared.hidden = true;
  const facts = make("p", "facts");
  const last = make("div", "last");
  last.title = "the last messages from outside of the actor, the newest first: kinds only, without contents";
  const failures = make("div", "failures");
  const law = make("dl", "law");
  law.title = "its row of the supervision tree";
  failures.title = "its last failures, the newest first";
  facts.title = "its state, its mailbox, the messages it handled, the time in its handlers, and its restarts";
  const element = make("div", "detail", role, facts, shared, make("div", "sparks", ...lines.map(({ row }) => row)), last, failures, law);
  const view = { path, past, lines, role, shared, facts, last, failures, law, known: null };
  return {
    element,
    /** Reads and draws it; `sample` is the selected moment, undefined for now. */
    show: async (span, sample) => {
      drawLines(view, span);
      if (!sample) view.known = await read(path).catch(() => view.known);
      drawFacts(view, sample);
    },
  };
}

async function read(path) {
  const response = await fetch(`/api/v1/actor?path=${encodeURIComponent(path)}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  return response.ok ? response.json() : null;
}

function drawLines({ path, past, lines, shared }, span) {
  LINES.forEach(([, field, counts, say], n) => {
    const went = past.actor(path, field);
    shared.hidden = !went.shared;
    const most = draw(lines[n].line, counts ? rises(went.points, went.shared) : went.points, { ...span, sum: counts });
    lines[n].most.textContent = most > 0 ? `≤ ${say(most)}` : "–";
  });
}

function drawFacts({ path, known, role, facts, last, failures, law }, sample) {
  const row = sample?.rows.get(path);
  role.textContent = known?.row?.role ?? "";
  if (sample) facts.textContent = row ? `${row.state}, ${row.mailbox} waiting, ${short(row.handled)} handled, ${row.restarts} restarts` : "no row of its own at this moment";
  else if (known) {
    const busy = known.handling_ms > 0 ? `, at one message for ${duration(known.handling_ms)}` : "";
    facts.textContent = `${known.state} for ${ago(known.for_s * 1000)}${busy}, ${known.mailbox} waiting, ${short(known.handled)} handled in ${duration(known.busy_us / 1000)}, ${known.restarts} ${known.restarts === 1 ? "restart" : "restarts"}`;
  } else facts.textContent = "It no longer exists.";
  last.hidden = Boolean(sample) || !known?.last.length;
  last.replaceChildren(...(known?.last ?? []).map(inputLine));
  const seen = (known?.failures ?? []).filter((failure) => !sample || Date.parse(failure.at) <= sample.at);
  failures.replaceChildren(...(seen.length ? seen.map(failureLine) : [make("p", "", "It has not failed.")]));
  const rules = known?.row ? [
    ["restart", known.row.restart], ["back-off", known.row.backoff],
    ["handler", `may run ${duration(known.row.handles_within_ms)}; one that runs longer is ${known.row.on_hang}`], ["stop", `within ${duration(known.row.stop_within_ms)}`],
  ] : [];
  const told = JSON.stringify(rules);
  if (law.dataset.told === told) return;
  law.dataset.told = told;
  law.replaceChildren(...rules.flatMap(([name, text]) => [make("dt", "", name), make("dd", "", text)]));
}

function inputLine({ kind, ago_ms: age, took_us: took }) {
  return make("p", "", make("span", "kind", kind), make("span", "took", typeof took === "number" ? duration(Math.max(took, 1) / 1000) : ""), make("span", "since", `${ago(age)} ago`));
}

function failureLine({ at, error, backoff_ms: backoff, outage_ms: outage }) {
  const after = [];
  if (typeof backoff === "number") after.push(`back-off ${duration(backoff)}`);
  if (typeof outage === "number") after.push(`back after ${duration(outage)}`);
  const when = make("time", "", new Date(at).toLocaleTimeString());
  when.dateTime = at;
  return make("p", "", when, make("span", "error", error), after.length ? make("span", "after", after.join(", ")) : "");
}
