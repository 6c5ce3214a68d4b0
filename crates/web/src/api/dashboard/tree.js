// The live supervision tree; changed rows are highlighted.

import { ago, duration, make, mark, set, short } from "./dom.js";

/** Number of children of one kind from which they are folded into a sum. */
const FOLD = 6;
/** Maximum number of children of one kind that are requested and drawn; the others are counted. */
export const CHILDREN = 60;
const MAX_DEPTH = 12;
/** Minimum time that a struck actor stays red, and time that its recovery is described. */
const RED_MS = 1500;
const TOLD_MS = 8000;
const GOOD = new Set(["running"]);
const BAD = new Set(["failed", "stopped"]);

/**
 * Creates a tree in `list`. `nameOf` returns the name for an id. `detail(path)` returns the content below a clicked
 * actor: an `element`, and `show` to refresh it; `menu(node)` may return an element above that. `order` may list actors
 * in another order.
 */
export function treeView(list, { nameOf, detail, menu, order }) {
  const view = { list, order, nameOf, detail, menu, rows: new Map(), open: new Set(), wounds: new Map(), away: null, asked: null, detailed: null, last: null, still: false };
  return {
    /**
     * Marks an actor as struck by a `crash`, a `freeze` or a `flood`: it is red for a moment, or if frozen until its
     * restart, and its recovery is described.
     */
    wound: (clicked, word, kind) => {
      // The menu may have been drawn before an earlier strike, whose result is not new.
      const node = (view.last && find(view.last, clicked.path)) ?? clicked;
      const now = performance.now();
      view.wounds.set(node.path, { word, node, kind, red: now + RED_MS, until: now + TOLD_MS * (kind === "freeze" ? 2 : 1) });
      view.open.add(`${above(node.path)}/${kindOf(node)}:*`);
      if (!view.last) return;
      show(view);
      const box = list.closest(".tree-scroll") ?? document.scrollingElement;
      view.away ??= { box, from: box.scrollTop, to: box.scrollTop };
      view.rows.get(node.path)?.element.scrollIntoView({ block: "nearest" });
      view.away.to = box.scrollTop;
    },
    /**
     * Returns the row name of the actor at a stop: the first with this prefix, or for a door the actor of its
     * connections.
     */
    nameOf: ({ actor, entry }) => {
      const keys = [...view.rows.keys()];
      const begins = (key) => key.split("/").at(-1).startsWith(actor);
      const found = entry
        ? keys.find((key) => key.endsWith(`/source:${actor}`)) ?? keys.find((key) => key.includes(`/${actor}/shard:`)) ?? keys.find((key) => key.endsWith("/ops"))
        : keys.find((key) => begins(key) && !key.endsWith("conversations")) ?? keys.find(begins);
      return view.rows.get(found)?.parts.name;
    },
    /**
     * Draws the tree and returns its totals. A tree of an earlier moment is `still`: its differences are not
     * highlighted.
     */
    show: (root, still = false) => {
      view.last = root;
      view.still = still;
      return show(view);
    },
    /** Sets the callback for opening another actor. */
    opened: (changed) => (view.changed = changed),
    /** The content that is open below an actor, if any. */
    detailed: () => view.detailed,
  };
}

function find(node, path) {
  if (node.path === path) return node;
  for (const child of node.children) {
    const found = path.startsWith(child.path) && find(child, path);
    if (found) return found;
  }
  return null;
}

function above(path) {
  return path.slice(0, path.lastIndexOf("/"));
}

function show(view) {
  const now = performance.now();
  for (const [path, wound] of view.wounds) if (wound.until < now) view.wounds.delete(path);
  if (view.away && view.wounds.size === 0) {
    // Scrolls back to the earlier position, unless the reader has scrolled since.
    const { box, from, to } = view.away;
    if (Math.abs(box.scrollTop - to) < 2) box.scrollTop = from;
    view.away = null;
  }
  const flat = [];
  const total = { nodes: 0, restarts: 0, mailbox: 0, bad: 0 };
  const count = (node) => {
    total.nodes += node.many ?? 1;
    total.restarts += node.restarts;
    total.mailbox += node.mailbox;
    total.bad += mood(node.state) === "bad" ? 1 : 0;
    node.children.forEach(count);
  };
  count(view.last);
  const listed = view.order?.list(view.last, (node) => readable(node.name, view.nameOf));
  if (listed) flat.push(...listed.map((node) => ({ key: node.path, node, branch: "" })));
  else walk(view, flat, view.last, { guides: "", last: true, depth: 0 });
  place(view, flat);
  return total;
}

function walk(view, flat, node, { guides, last, depth }) {
  flat.push({ key: node.path, node, branch: depth === 0 ? "" : guides + (last ? "└─ " : "├─ ") });
  if (depth >= MAX_DEPTH) return;
  const inner = depth === 0 ? "" : guides + (last ? "   " : "│  ");
  const below = groups(view, node);
  below.forEach((item, n) => {
    const end = n === below.length - 1;
    if (item.node) walk(view, flat, item.node, { guides: inner, last: end, depth: depth + 1 });
    else flat.push({ ...item, branch: inner + (end ? "└─ " : "├─ ") });
  });
}

/** The children as drawn: single ones, sums of one kind, and the number of the rest. */
function groups(view, node) {
  const kinds = new Map();
  // An actor that is not restarted is shown a while longer.
  const gone = view.still ? [] : [...view.wounds.values()].filter((wound) => above(wound.node.path) === node.path && !node.children.some((child) => child.path === wound.node.path));
  const ghosts = gone.map(({ node: last }) => ({ ...last, state: "gone", mailbox: 0, last_error: null, children: [] }));
  const out = [];
  // Actors of a kind without rows of their own share one.
  const rests = new Map();
  for (const child of [...node.children, ...ghosts]) {
    const kind = kindOf(child);
    if (child.many !== undefined) rests.set(kind, child);
    else if (kinds.has(kind)) kinds.get(kind).push(child);
    else kinds.set(kind, [child]);
  }
  for (const [kind, rest] of rests) {
    if (!kinds.has(kind)) out.push({ key: `${rest.path}@`, sum: { ...rest, name: `${kind} × ${rest.many}` } });
  }
  for (const [kind, children] of kinds) {
    const key = `${node.path}/${kind}:*`;
    const rest = rests.get(kind);
    if (!rest && children.length < FOLD) {
      out.push(...children.map((child) => ({ node: child })));
      continue;
    }
    out.push({ key, fold: true, open: view.open.has(key), sum: summed(kind, rest ? [...children, rest] : children) });
    if (!view.open.has(key)) continue;
    out.push(...children.slice(0, CHILDREN).map((child) => ({ node: child })));
    const more = Math.max(0, children.length - CHILDREN) + (rest?.many ?? 0);
    if (more) out.push({ key: `${key}…`, more });
  }
  return out;
}

function kindOf(node) {
  return node.name.split(":")[0];
}

function summed(kind, children) {
  const many = children.reduce((sum, child) => sum + (child.many ?? 1), 0);
  const sum = { name: `${kind} × ${many}`, path: kind, state: "running", restarts: 0, mailbox: 0, handled: 0, uptime_s: 0, last_error: null };
  for (const child of children) {
    sum.restarts += child.restarts;
    sum.mailbox += child.mailbox;
    sum.handled += child.handled;
    sum.uptime_s = Math.max(sum.uptime_s, child.uptime_s);
    if (mood(child.state) !== "good" && mood(sum.state) !== "bad") {
      sum.state = child.state;
      sum.last_error = child.last_error;
    }
  }
  return sum;
}

function place(view, flat) {
  const { rows, list } = view;
  const kept = new Set(flat.map((entry) => entry.key));
  for (const [key, row] of rows) {
    if (kept.has(key)) continue;
    row.element.remove();
    rows.delete(key);
  }
  const first = rows.size === 0;
  let after = null;
  for (const entry of flat) {
    let row = rows.get(entry.key);
    if (!row) {
      row = newRow(view, entry);
      rows.set(entry.key, row);
      if (!first && !view.still) mark(row.element, "born");
    }
    fill(view, row, entry);
    const next = after ? after.nextSibling : list.firstChild;
    if (next !== row.element) list.insertBefore(row.element, next);
    after = row.element;
  }
}

function newRow(view, entry) {
  const parts = {
    branch: make("span", "branch"), dot: make("i", "dot"), name: make(pressable(entry) ? "button" : "span", "name"), state: make("span", "state"),
    depth: make("span", "chip depth"), again: make("span", "chip again"), handled: make("span", "handled"),
    error: make("span", "error"), menu: make("div", "strike"),
  };
  parts.menu.hidden = true;
  parts.branch.setAttribute("aria-hidden", "true");
  parts.dot.setAttribute("aria-hidden", "true");
  if (entry.fold) {
    parts.name.type = "button";
    parts.name.addEventListener("click", () => {
      if (!view.open.delete(entry.key)) view.open.add(entry.key);
      show(view);
    });
  } else if (pressable(entry)) {
    parts.name.type = "button";
    parts.name.classList.add("actor");
    parts.name.addEventListener("click", () => {
      view.asked = view.asked === entry.key ? null : entry.key;
      show(view);
      view.changed?.();
      parts.menu.querySelector("button")?.focus();
    });
  }
  const line = make("div", "node", parts.branch, parts.dot, parts.name, parts.state, parts.depth, parts.again, parts.handled);
  return { element: make("li", "", line, parts.menu, parts.error), line, parts, seen: null };
}

/** Sums can be unfolded, actors can be opened. */
function pressable({ fold, node }) {
  return Boolean(fold || node);
}

function fillMenu(view, parts, node, key) {
  const open = view.asked === key;
  if (parts.name.classList.contains("actor")) parts.name.setAttribute("aria-expanded", String(open));
  if (open === !parts.menu.hidden) return;
  parts.menu.hidden = !open;
  if (!open) {
    parts.menu.replaceChildren();
    if (view.detailed?.path === key) view.detailed = null;
    return;
  }
  view.detailed = { path: key, ...view.detail(key) };
  // The root is the program itself, which cannot be struck.
  parts.menu.replaceChildren(...(view.menu && key.includes("/") ? [view.menu(node)] : []), view.detailed.element);
}

/** Describes the recovery of a struck actor. */
function story({ word, kind, red, node: before }, told) {
  if (told.state === "restarting") return `${word}, back-off ${duration(told.backoff_ms ?? 0)}`;
  if (told.state === "hung") return `${word}, the watchdog will end it`;
  if (told.state === "gone") return `${word}; its work is offered again`;
  if (told.state !== "running") return `${word}, ${told.state}`;
  if (told.restarts > before.restarts && told.outage_ms) return `${word}, back after ${duration(told.outage_ms)}`;
  // A crashed actor that runs without an outage is a new actor of that name.
  if (told.restarts > before.restarts || told.handled < before.handled || (kind === "crash" && performance.now() > red)) return `${word}, restarted`;
  return told.mailbox > 0 ? `${word}, ${told.mailbox} wait` : word;
}

function fill(view, row, { node, sum, branch, more, open }) {
  const { parts, line } = row;
  set(parts.branch, branch);
  if (more) {
    set(parts.name, `${more} more`);
    line.classList.add("more");
    return;
  }
  const told = node ?? sum;
  const wound = node && !view.still && view.wounds.get(node.path);
  const stuck = wound?.kind === "freeze" && told.restarts === wound.node.restarts && told.handled >= wound.node.handled;
  const hurt = wound && (performance.now() < wound.red || stuck || told.state !== "running");
  const colour = hurt ? "bad" : mood(told.state);
  row.element.classList.toggle("hurt", Boolean(hurt));
  row.element.classList.toggle("struck", Boolean(wound));
  parts.dot.className = `dot ${colour}`;
  row.element.style.setProperty("--indent", branch.length);
  set(parts.name, node ? readable(node.name, view.nameOf) : sum.name);
  if (sum) parts.name.setAttribute("aria-expanded", String(open));
  if (node && view.detail) fillMenu(view, parts, node, node.path);
  set(parts.state, wound ? story(wound, told) : colour === "good" ? "" : told.state.replaceAll("_", " "));
  parts.state.classList.toggle("healed", Boolean(wound) && !hurt);
  set(parts.depth, told.mailbox > 0 ? String(told.mailbox) : "");
  set(parts.again, told.restarts > 0 ? `↻ ${told.restarts}` : "");
  set(parts.handled, told.handled > 0 ? short(told.handled) : "");
  set(parts.error, colour !== "good" && told.last_error ? told.last_error : "");
  parts.depth.title = "messages in its mailbox";
  parts.again.title = "restarts by its supervisor after failures";
  parts.handled.title = "messages and events from outside that it handled, over all restarts";
  parts.depth.setAttribute("aria-label", `${told.mailbox} waiting`);
  parts.again.setAttribute("aria-label", `${told.restarts} restarts`);
  parts.handled.setAttribute("aria-label", `${told.handled} handled`);
  parts.depth.classList.toggle("deep", told.mailbox >= 10);
  const about = [`${told.path}: ${told.state}`, ...(view.still ? [] : [`up ${ago(told.uptime_s * 1000)}`]), `${told.handled} handled, ${told.mailbox} waiting, ${told.restarts} restarts`];
  if (told.last_event) about.push(`last event: ${new Date(told.last_event).toLocaleTimeString()}`);
  if (told.last_error) about.push(`last error: ${told.last_error}`);
  line.title = about.join("\n");
  const seen = row.seen;
  row.seen = { state: told.state, restarts: told.restarts, handled: told.handled };
  if (!seen || view.still) return;
  if (seen.restarts !== told.restarts) mark(row.element, "restarted");
  else if (seen.state !== told.state) mark(row.element, "changed");
  else if (seen.handled !== told.handled) mark(row.element, "worked");
}

function readable(name, nameOf) {
  return name.replace(/[a-z]+:(\d{15,20})$|\d{15,20}/, (all, id) => nameOf(id ?? all) ?? `…${all.slice(-4)}`);
}

function mood(state) {
  if (GOOD.has(state)) return "good";
  return BAD.has(state) ? "bad" : "busy";
}
