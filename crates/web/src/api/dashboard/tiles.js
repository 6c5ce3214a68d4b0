// The tiles: totals, now or at an earlier moment, each with a sparkline.

import { duration, make, short } from "./dom.js";
import { rises } from "./past.js";
import { draw, spark } from "./spark.js";

/** Each tile: its name, its meaning, its figure in a sample, true for a counter. */
const TILES = [
  ["turns", "turns accepted: a message each, or what a timer or a webhook asked", (now) => now.turns, true],
  ["first words", "from a turn's acceptance to the first text a member can see: the median of the turns below", (now) => now.first_words_p50_ms, false],
  ["tokens in", "tokens sent to models", (now) => now.prompt_tokens, true],
  ["tokens out", "tokens that models generated", (now) => now.completion_tokens, true],
  ["cost", "cost of model calls, for rows with prices", (now) => now.dollars, true],
  ["refused", "requests over a limit", (now) => now.refused, true],
  ["shed", "work rejected because of overload", (now) => now.shed, true],
  ["lost", "turns closed without a reply or an apology", (now) => now.lost, true],
  ["doubled", "messages that were answered twice", (now) => now.doubled, true],
];
/** The time span of counters. */
const SINCE = ", since this process of the bot started";
const COUNTERS = { refused: "staffai_limit_refused_total", shed: "staffai_shed_total", lost: "staffai_turns_lost_total", doubled: "staffai_turns_doubled_total" };

/** Builds the tiles in `list`. */
export function tilesOn(list) {
  const tiles = TILES.map(([name, what, , counts]) => {
    const meaning = counts ? what + SINCE : what;
    const parts = { value: make("span", "value"), line: spark("of-tile") };
    const tile = make("div", "tile", make("dt", "", name), make("dd", "", parts.value, parts.line));
    tile.title = meaning;
    return { tile, meaning, ...parts };
  });
  list.append(...tiles.map(({ tile }) => tile));
  return {
    show: (figures, past, span) => TILES.forEach(([name, , of, counts], n) => {
      const { tile, value, line, meaning } = tiles[n];
      const [text, mood] = shown(name, of(figures));
      tile.className = `tile ${mood}`;
      if (value.textContent !== text) value.textContent = text;
      if (!past) return;
      const points = past.figures((one) => of(one) ?? null);
      const most = draw(line, counts ? rises(points) : points, { ...span, sum: counts });
      tile.title = `${meaning}\n${most > 0 ? `${counts ? "at most in ten seconds" : "at most"} ${shown(name, most)[0]}, over the last ten minutes` : "nothing in the last ten minutes"}`;
    }),
  };
}

function shown(name, value) {
  if (name === "cost") return [value === null || value === undefined ? "–" : dollars(value), ""];
  if (name === "first words") return [value === null || value === undefined ? "–" : duration(value), ""];
  const moods = { shed: value ? "warn" : "", lost: value ? "bad" : "fine", doubled: value ? "bad" : "fine" };
  return [short(value ?? 0), moods[name] ?? ""];
}

/** The current figures, from the newest turns and the metrics. */
export function figuresNow({ turns, accepted, spent }, page) {
  const ended = turns.filter((turn) => turn.ended_ms !== null && turn.steps.length > 0).map((turn) => turn.visible_ms ?? turn.ended_ms).sort((a, b) => a - b);
  const sum = (field) => spent.reduce((all, row) => all + row[field], 0);
  const priced = spent.filter((row) => row.dollars !== null);
  const counted = counters(page);
  return {
    turns: accepted, first_words_p50_ms: ended[Math.floor((ended.length - 1) / 2)] ?? null,
    prompt_tokens: sum("prompt_tokens"), completion_tokens: sum("completion_tokens"),
    dollars: priced.length ? priced.reduce((all, row) => all + row.dollars, 0) : null,
    ...Object.fromEntries(Object.entries(COUNTERS).map(([name, counter]) => [name, counted[counter] ?? 0])),
  };
}

/** Parses counters from the metrics, summed over their labels. */
export function counters(page) {
  const sums = {};
  for (const line of page.split("\n")) {
    const match = line.match(/^(staffai_[a-z_]+_total)(?:\{[^}]*\})? ([0-9.e+-]+)$/);
    if (match) sums[match[1]] = (sums[match[1]] ?? 0) + Number(match[2]);
  }
  return sums;
}

function dollars(amount) {
  return amount !== 0 && amount < 0.01 ? `$${amount.toPrecision(2)}` : `$${amount.toFixed(2)}`;
}

/** The limits and their use, and the cost of each model. */
export function showMoney({ meters, spent: list }, { limits, spent, today }) {
  meters.replaceChildren(...limits.map((limit) => {
    const fill = make("i", limit.used >= limit.max ? "full" : "");
    fill.style.width = `${Math.min(100, (limit.used / Math.max(1, limit.max)) * 100)}%`;
    return make("li", "", make("span", "name", limit.name), make("span", "meter", fill), make("span", "figure", `${limit.used} of ${limit.max}`));
  }).map((row) => titled(row, "the use of this limit and its maximum; beyond it work is queued or rejected")));
  const days = today ? [today] : [];
  list.replaceChildren(...days.map((day) => {
    const cached = day.cached_tokens ? `, ${short(day.cached_tokens)} cached` : "";
    const unpriced = day.unpriced_tokens && day.dollars !== null ? `; ${short(day.unpriced_tokens)} without a price` : "";
    const who = `${day.messages} ${day.messages === 1 ? "message" : "messages"} of ${day.members} ${day.members === 1 ? "member" : "members"}`;
    const figures = `${who}; ${short(day.prompt_tokens)} in${cached}, ${short(day.completion_tokens)} out${unpriced}`;
    return make("li", "", make("span", "name", `${day.day}, all`), make("span", "figure", figures), make("span", "price", day.dollars === null ? "no price" : dollars(day.dollars)));
  }).map((row) => titled(row, "the usage ledger of this day, across restarts: messages, members, tokens, cost")), ...spent.map((row) => {
    const failed = row.failed ? `, ${row.failed} failed` : "";
    const cached = row.cached_tokens ? `, ${short(row.cached_tokens)} cached` : "";
    const figures = `${row.calls} ${row.calls === 1 ? "call" : "calls"}${failed}; ${short(row.prompt_tokens)} in${cached}, ${short(row.completion_tokens)} out`;
    return make("li", "", make("span", "name", row.model), make("span", "figure", figures), make("span", "price", row.dollars === null ? "no price" : dollars(row.dollars)));
  }).map((row) => titled(row, "calls of this model row since this bot process started: input and output tokens, and their cost if the row has prices")));
}

function titled(element, title) {
  element.title = title;
  return element;
}
