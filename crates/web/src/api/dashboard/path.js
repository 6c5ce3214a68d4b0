// The path of a turn through the actors: a dot that moves along the tree, and the stops with their times.

import { duration, make, short } from "./dom.js";

/** Minimum time at a stop, so that the dot can be followed. */
const STEP_MS = 170;
/** Time that the dot stays at its end. */
const END_MS = 900;
/** Maximum number of concurrent dots; further turns have none. */
const DOTS = 12;
const MODEL = "llm_dispatcher";
/** Minimum length of a retry delay that gets a line. */
const PAUSE_MS = 5;
/** A limit above this counts as unlimited. */
const NO_LIMIT = 1e9;
/** The number of stops before the limits: they have one time together. */
const FIRST_STOPS = 3;
/** Minimum and maximum time at a stop of a replay. */
const REPLAY_MIN_MS = 350;
const REPLAY_MAX_MS = 1600;
/** The epoch of Discord's ids, and the maximum age of a message whose way is shown. */
const DISCORD_EPOCH = 1_420_070_400_000;
const UNDERWAY_MAX_MS = 10_000;

let oneClock = false;

/**
 * The stops that a turn has reached: `{actor, label, from, to, note}` in milliseconds since it was accepted; `to` is
 * null at the current stop. `actor` is a prefix of the actor's name, and the door for the `entry`.
 */
export function stops(ofTurn) {
  const turn = precise(ofTurn);
  const end = turn.ended_ms;
  const { decided, reserved, charged } = turn;
  const known = charged ?? end;
  const out = [
    { actor: turn.door, entry: true, label: "comes in", from: -Math.max(decided, underway(turn) ?? 0), to: -decided },
    { actor: "gateway", label: `decides: ${turn.trigger}`, from: -decided, to: 0 },
    { actor: "journal", label: "records the turn", from: 0, to: reserved },
  ];
  const note = limitsAsked(turn.counted);
  if (turn.started_ms === null && known !== null) out.push({ actor: "rate_limiter", label: turn.outcome, from: reserved, to: known, note });
  else out.push({ actor: "rate_limiter", label: "within the limits, then its queue", from: reserved, to: turn.started_ms, note });
  let at = turn.started_ms ?? 0;
  if (turn.started_ms !== null) {
    out.push({ actor: "conversation", label: "history and prompt", from: at, to: turn.steps[0]?.from_ms ?? known, note: turn.trial ? `experiment ${turn.trial.experiment}: ${turn.trial.arm}` : undefined });
    turn.steps.forEach((step, n) => {
      const before = turn.steps.slice(0, n);
      const failed = before.at(-1)?.failed && before.at(-1).to_ms;
      const { to, cut } = endOfStep(turn, n);
      if (failed && step.from_ms - failed >= PAUSE_MS) out.push({ actor: "conversation", label: "backs off, then retries", from: failed, to: step.from_ms });
      out.push(stepStop(step, before, { to, cut }));
      at = Math.max(at, to ?? at);
    });
    if (turn.answered_ms !== null && turn.steps.length) out.push({ actor: "conversation", label: "checks the answer", from: at, to: Math.max(at, charged) });
  }
  if (turn.answered_ms !== null) {
    // The limiter counts in parallel, without a time of its own in the turn.
    const counts = typeof turn.counted?.tokens === "number" ? limitsTaken(turn.counted) : "";
    out.push({ actor: "journal", label: "keeps the answer", from: charged, to: turn.answered_ms, note: counts });
    out.push({ actor: `outbox:${turn.door}`, label: "posts it", from: turn.answered_ms, to: end });
  }
  return out;
}

/**
 * The turn with its moments in fractions of a millisecond where they are known, and those that only its path shows:
 * `decided`, the time from the door through the gateway, and the moments at which the limits were asked and charged.
 */
function precise(turn) {
  const us = turn.us ?? {};
  const exact = (coarse, fine) => (coarse === null || fine === undefined || fine === null ? coarse : fine / 1000);
  const [answered, started, ended] = [exact(turn.answered_ms, us.answered), exact(turn.started_ms, us.started), exact(turn.ended_ms, us.ended)];
  return {
    ...turn, answered_ms: answered, started_ms: started, ended_ms: ended,
    decided: (us.decided ?? 0) / 1000, reserved: (us.reserved ?? 0) / 1000, charged: exact(answered, us.charged),
    steps: turn.steps.map((step) => ({ ...step, from_ms: exact(step.from_ms, step.from_us), to_ms: exact(step.to_ms, step.to_us) })),
  };
}

/** The time from the post of a message to its record, where both have one clock: ids of Discord begin with a time. */
function underway(turn) {
  if (!oneClock || turn.door !== "discord" || !/^\d{15,20}$/.test(turn.message ?? "")) return null;
  const took = Date.parse(turn.at) - (Number(BigInt(turn.message) >> 22n) + DISCORD_EPOCH);
  return took >= 0 && took < UNDERWAY_MAX_MS ? took : null;
}

/** Tells that the chat service runs on this machine, so that its times can be compared with those of the program. */
export function sameClock() {
  oneClock = true;
}

function limitsAsked(counted) {
  if (!counted) return "";
  if (counted.exempt) return "no limit applies, the turn is only counted";
  return `1 message of ${short(counted.of_messages)}, about ${of(counted.expected, counted.of_tokens)} tokens`;
}

/** The use of a window's limit, if it is limited. */
function of(many, allowed) {
  return allowed < NO_LIMIT ? `${short(many)} of ${short(allowed)}` : short(many);
}

function limitsTaken({ messages, tokens }) {
  return messages === 0 ? "counts nothing" : `counts 1 message, ${short(tokens)} tokens`;
}

/**
 * The end of a step; `to` is null while it runs. A step that never ended, because its conversation crashed or the turn
 * timed out, ends at the next model call or with the turn: it was cut off. The report of a step may follow the answer,
 * so an open step of an answered turn is not cut off before the turn ends.
 */
export function endOfStep(turn, n) {
  const step = turn.steps[n];
  if (step.to_ms !== null) return { to: step.to_ms, cut: "" };
  const anew = turn.steps.slice(n + 1).find((later) => later.kind === "model");
  const to = anew?.from_ms ?? turn.answered_ms ?? turn.ended_ms;
  return { to, cut: anew ? "cut off, and asked again" : turn.ended_ms !== null && to !== null ? "cut off" : "" };
}

function stepStop(step, before, { to, cut }) {
  const again = before.some((other) => other.kind === step.kind && (other.failed || other.to_ms === null)) ? "again: " : "";
  const notes = [];
  if (step.failed) notes.push(step.failed.replaceAll("_", " "));
  if (cut) notes.push(cut);
  if (step.cost?.prompt_tokens || step.cost?.completion_tokens) {
    const cached = step.cost.cached_tokens ? ` (${step.cost.cached_tokens} cached)` : "";
    notes.push(`${step.cost.prompt_tokens} in${cached}, ${step.cost.completion_tokens} out`);
  }
  if (typeof step.cost?.dollars === "number") notes.push(`$${step.cost.dollars.toPrecision(2)}`);
  const failed = step.failed ?? (cut || null);
  if (step.kind === "gate") return { actor: "approvals", kind: step.kind, label: `asks for approval: ${step.name}`, from: step.from_ms, to, note: notes.join(", "), failed };
  return { actor: step.kind === "model" ? MODEL : "tools", kind: step.kind, label: again + step.name, from: step.from_ms, to, note: notes.join(", "), failed };
}

/**
 * Joins stops of which only the sum has a time: those that record a moment are part of the next or the last stop with
 * a duration. Each line has the numbers of its stops.
 */
function joined(all) {
  const lines = [];
  all.forEach((stop, n) => {
    const last = lines.at(-1);
    const moment = stop.to === stop.from && !stop.kind;
    const opens = last && last.opens && last.from === stop.from;
    const follows = moment && last && !last.failed && n < FIRST_STOPS;
    if (opens || follows) {
      last.actors.push(stop.actor);
      last.labels.push(stop.label);
      Object.assign(last, { to: stop.to, opens: moment && opens, note: [last.note, stop.note].filter(Boolean).join(", ") });
      last.stops.push(n);
    } else {
      lines.push({ actors: [stop.actor], labels: [stop.label], from: stop.from, to: stop.to, note: stop.note ?? "", failed: stop.failed, opens: moment && n >= FIRST_STOPS, stops: [n] });
    }
  });
  return lines;
}

/** Formats the stops as list items: each with its beginning and its duration. */
export function pathLines(turn) {
  const all = stops(turn);
  const lines = joined(all).map(({ actors, labels, from, to, note, failed, stops: numbers }) => {
    const began = make("span", "began", from > 0 ? `+${duration(from)}` : "");
    began.title = "when it began, after the turn was recorded";
    const took = make("span", "took", to === null ? "now" : to > from ? duration(to - from) : from < 0 || to > 0 || numbers.length === 1 ? "< 1 ms" : "");
    took.title = "how long it took";
    const line = make("li", failed ? "failed" : "", make("span", "stop-actor", actors.join(", ")), make("span", "stop-label", labels.join(", ")), began, took, note ? make("span", "stop-note", note) : "");
    line.dataset.stops = numbers.join(" ");
    return line;
  });
  return make("ol", "path", ...lines);
}

/** The time that a replay spends at a stop: that of the turn, within bounds. */
function replayed(stop) {
  return Math.min(REPLAY_MAX_MS, Math.max(REPLAY_MIN_MS, (stop.to ?? stop.from) - stop.from));
}

/** Dots on a tree. `rowOf(stop)` returns the element of a row, if it exists. */
export function dotsOn(tree, rowOf) {
  const going = new Map();
  const begun = new Set();
  let timer = null;
  let first = true;
  /** Ends the replay; null if there is none. */
  let replaying = null;
  const step = () => {
    const now = performance.now();
    for (const [number, dot] of going) {
      if (now < dot.next) continue;
      const last = dot.at >= dot.stops.length - 1;
      if (last && dot.turn.ended_ms === null) continue;
      if (last) {
        dot.element.remove();
        going.delete(number);
        continue;
      }
      dot.at += 1;
      move(tree, dot, rowOf);
      const end = dot.at >= dot.stops.length - 1 && dot.turn.ended_ms !== null;
      dot.next = now + (end ? END_MS : STEP_MS);
    }
    if (going.size === 0) {
      clearInterval(timer);
      timer = null;
    }
  };
  return {
    /** Receives the newest turns. Those in the first batch get no dots. */
    show: (turns) => {
      for (const turn of [...turns].reverse()) {
        const dot = going.get(turn.number);
        if (dot) {
          dot.turn = turn;
          dot.stops = stops(turn);
        } else if (!begun.has(turn.number)) {
          begun.add(turn.number);
          if (first || going.size >= DOTS) continue;
          const made = { turn, stops: stops(turn), at: 0, next: performance.now() + STEP_MS, element: make("i", "traveller") };
          made.element.setAttribute("aria-hidden", "true");
          going.set(turn.number, made);
          tree.append(made.element);
          move(tree, made, rowOf);
        }
      }
      const oldest = turns.at(-1)?.number ?? 0;
      // Turns that are no longer among the newest get no further updates.
      for (const [number, dot] of going) {
        if (number >= oldest) continue;
        dot.element.remove();
        going.delete(number);
      }
      for (const number of begun) if (number < oldest) begun.delete(number);
      first = false;
      if (going.size > 0) timer ??= setInterval(step, STEP_MS / 2);
    },
    /** Shows the way of an ended turn again; `reached(n)` is called at each stop, and without a number at the end. */
    replay: (turn, reached) => {
      replaying?.();
      const dot = { stops: stops(turn), at: 0, element: make("i", "traveller replayed") };
      dot.element.setAttribute("aria-hidden", "true");
      tree.append(dot.element);
      let timer = 0;
      replaying = () => {
        clearTimeout(timer);
        dot.element.remove();
        replaying = null;
        reached();
      };
      const go = () => {
        if (dot.at >= dot.stops.length) {
          replaying();
          return;
        }
        move(tree, dot, rowOf);
        reached(dot.at);
        timer = setTimeout(go, replayed(dot.stops[dot.at]));
        dot.at += 1;
      };
      go();
    },
    /** True if any dot is moving. */
    busy: () => going.size > 0,
    forget: () => {
      for (const dot of going.values()) dot.element.remove();
      going.clear();
      begun.clear();
      first = true;
    },
  };
}

function move(tree, dot, rowOf) {
  const row = rowOf(dot.stops[dot.at]);
  if (!row) return;
  const [box, place] = [tree.getBoundingClientRect(), row.getBoundingClientRect()];
  dot.element.style.translate = `${place.right - box.left + 6}px ${place.top - box.top + place.height / 2 - 5}px`;
}
