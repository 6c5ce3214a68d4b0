// The last minutes: the samples that the program keeps, and its state at a sampled moment.

/** The fields of a row, in order. */
const FIELDS = ["state", "count", "mailbox", "restarts", "handled", "p50", "p99"];
const MINUTE = 60_000;

/** Keeps the samples that were read. They survive the process that took them, so a killed bot remains visible. */
export function pastOf() {
  const past = { samples: [], breaks: [], every: 2000, kept: 300 };
  return {
    /** Time of the newest sample, in milliseconds since 1970; 0 if there is none. */
    newest: () => past.samples.at(-1)?.at ?? 0,
    every: () => past.every,
    /** Adds samples from a response. */
    take: ({ every_ms: every, kept, actors, samples, breaks }) => {
      Object.assign(past, { every, kept, breaks: breaks ?? [] });
      const after = past.samples.at(-1)?.at ?? 0;
      past.samples.push(...samples.filter((sample) => sample.at > after).map((sample) => read(sample, actors)));
      const oldest = (past.samples.at(-1)?.at ?? 0) - every * kept;
      past.samples = past.samples.filter((sample) => sample.at > oldest);
    },
    all: () => past.samples,
    /** Outages of the program: `{from, to, kind}`, as far as the samples reach. */
    breaks: () => past.breaks.filter((one) => one.to >= (past.samples[0]?.at ?? 0)),
    /** Index of the last sample at or before a time; -1 if there is none. */
    indexAt: (moment) => past.samples.findLastIndex((sample) => sample.at <= moment),
    /** The history of a figure: `[moment, value]`. */
    figures: (of) => past.samples.map((sample) => [sample.at, of(sample.figures)]),
    /** The history of an actor, or of all of its kind if it has no row of its own (`shared`). */
    actor: (path, field) => {
      const family = familyOf(path);
      const own = past.samples.some((sample) => sample.rows.has(path));
      const key = own ? path : family;
      return { shared: !own, points: past.samples.map((sample) => [sample.at, sample.rows.get(key)?.[field] ?? null]) };
    },
  };
}

function read(sample, actors) {
  const rows = new Map(sample.rows.map(([index, ...values]) => [actors[index], Object.fromEntries(FIELDS.map((name, n) => [name, values[n]]))]));
  return { at: sample.at, figures: sample.figures, rows };
}

/** The path of the row shared by all actors of a kind: `above/kind:*`. */
export function familyOf(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return `${path.slice(0, path.length - name.length)}${name.split(":")[0]}:*`;
}

/**
 * The increase of a counter from point to point. A decrease means that its process restarted or, for the sum of several
 * actors (`shared`), that one was removed.
 */
export function rises(points, shared = false) {
  return points.map(([at, value], n) => {
    const before = points[n - 1]?.[1] ?? value;
    return [at, value === null ? null : value >= before ? value - before : shared ? 0 : value];
  });
}

/** The tree of a sample, in the program's format. Siblings are ordered as in `live`. */
export function treeAt(sample, live) {
  const order = new Map();
  const number = (node) => {
    order.set(node.path, order.size);
    node.children.forEach(number);
  };
  if (live) number(live);
  const nodes = new Map();
  const nodeAt = (path) => {
    if (nodes.has(path)) return nodes.get(path);
    const node = { name: path.slice(path.lastIndexOf("/") + 1), path, state: "running", restarts: 0, mailbox: 0, handled: 0, uptime_s: 0, last_error: null, children: [] };
    nodes.set(path, node);
    if (path.includes("/")) nodeAt(path.slice(0, path.lastIndexOf("/"))).children.push(node);
    return node;
  };
  for (const [path, row] of sample.rows) {
    Object.assign(nodeAt(path), { state: row.state, restarts: row.restarts, mailbox: row.mailbox, handled: row.handled });
    if (path.endsWith(":*")) nodeAt(path).many = row.count;
  }
  const place = (node) => order.get(node.path) ?? order.size;
  for (const node of nodes.values()) node.children.sort((a, b) => place(a) - place(b));
  return nodeAt(live?.path ?? "staffai");
}

/** A turn as known at a time; undefined if it was not accepted yet. */
export function turnAt(turn, moment) {
  const age = moment - Date.parse(turn.at);
  if (age < 0) return null;
  const known = (ms) => (ms !== null && ms <= age ? ms : null);
  const ended = known(turn.ended_ms);
  return {
    ...turn, age_ms: age, ended_ms: ended, started_ms: known(turn.started_ms), answered_ms: known(turn.answered_ms), visible_ms: known(turn.visible_ms),
    counted: turn.counted && { ...turn.counted, tokens: known(turn.answered_ms) === null ? null : turn.counted.tokens },
    outcome: ended === null ? "open" : turn.outcome, reason: ended === null ? null : turn.reason,
    steps: turn.steps.filter((step) => step.from_ms <= age).map((step) => {
      const over = known(step.to_ms);
      return { ...step, to_ms: over, failed: over === null ? null : step.failed, cost: over === null ? null : step.cost };
    }),
  };
}

/** Restarts of all actors between samples in the last minute: `[moment, restarts]`. */
export function restartsOf(samples) {
  return samples.map((sample, n) => {
    const before = samples[n - 1]?.rows;
    let sum = 0;
    for (const [path, { restarts }] of sample.rows) {
      const known = before?.get(path)?.restarts ?? restarts;
      sum += Math.max(0, restarts - known);
    }
    // A gap between samples means that the process was down.
    const gap = n > 0 && sample.at - samples[n - 1].at > MINUTE / 6;
    return [sample.at, sum + (gap ? 1 : 0)];
  });
}
