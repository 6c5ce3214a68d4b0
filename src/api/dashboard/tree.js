// The living supervision tree, marked where it changed.

import { ago, make, mark, set, short } from "./dom.js";

/** From so many on, children of one kind are shown as one sum until somebody unfolds them. */
const FOLD = 6;
/** Children of one node that are drawn; the others are counted. */
const CHILDREN = 60;
const MAX_DEPTH = 12;
const GOOD = new Set(["running"]);
const BAD = new Set(["failed", "stopped"]);

/** Makes a tree in `list`. `nameOf` gives the name of what an id stands for, so that people need not read numbers. */
export function treeView(list, nameOf) {
  const view = { list, nameOf, rows: new Map(), open: new Set(), last: null };
  return {
    /** Draws the tree and tells what it sums up to. */
    show: (root) => {
      view.last = root;
      return show(view);
    },
  };
}

function show(view) {
  const flat = [];
  const total = { nodes: 0, restarts: 0, mailbox: 0, bad: 0 };
  const count = (node) => {
    total.nodes += 1;
    total.restarts += node.restarts;
    total.mailbox += node.mailbox;
    total.bad += mood(node.state) === "bad" ? 1 : 0;
    node.children.forEach(count);
  };
  count(view.last);
  walk(view, flat, view.last, { guides: "", last: true, depth: 0 });
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

/** The children as they are drawn: single ones, sums of one kind, and how many more there are. */
function groups(view, node) {
  const kinds = new Map();
  for (const child of node.children) {
    const kind = kindOf(child);
    if (kinds.has(kind)) kinds.get(kind).push(child);
    else kinds.set(kind, [child]);
  }
  const out = [];
  for (const [kind, children] of kinds) {
    const key = `${node.path}/${kind}:*`;
    if (children.length < FOLD) {
      out.push(...children.map((child) => ({ node: child })));
      continue;
    }
    out.push({ key, fold: true, open: view.open.has(key), sum: summed(kind, children) });
    if (!view.open.has(key)) continue;
    out.push(...children.slice(0, CHILDREN).map((child) => ({ node: child })));
    if (children.length > CHILDREN) out.push({ key: `${key}…`, more: children.length - CHILDREN });
  }
  return out;
}

function kindOf(node) {
  return node.name.split(":")[0];
}

function summed(kind, children) {
  const sum = { name: `${kind} × ${children.length}`, path: kind, state: "running", restarts: 0, mailbox: 0, handled: 0, uptime_s: 0, last_error: null };
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
      if (!first) mark(row.element, "born");
    }
    fill(view, row, entry);
    const next = after ? after.nextSibling : list.firstChild;
    if (next !== row.element) list.insertBefore(row.element, next);
    after = row.element;
  }
}

function newRow(view, entry) {
  const parts = {
    branch: make("span", "branch"), dot: make("i", "dot"), name: make(entry.fold ? "button" : "span", "name"), state: make("span", "state"),
    depth: make("span", "chip depth"), again: make("span", "chip again"), handled: make("span", "handled"),
    error: make("span", "error"),
  };
  parts.branch.setAttribute("aria-hidden", "true");
  parts.dot.setAttribute("aria-hidden", "true");
  if (entry.fold) {
    parts.name.type = "button";
    parts.name.addEventListener("click", () => {
      if (!view.open.delete(entry.key)) view.open.add(entry.key);
      show(view);
    });
  }
  const line = make("div", "node", parts.branch, parts.dot, parts.name, parts.state, parts.depth, parts.again, parts.handled);
  return { element: make("li", "", line, parts.error), line, parts, seen: null };
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
  const colour = mood(told.state);
  parts.dot.className = `dot ${colour}`;
  row.element.style.setProperty("--indent", branch.length);
  set(parts.name, node ? readable(node.name, view.nameOf) : sum.name);
  if (sum) parts.name.setAttribute("aria-expanded", String(open));
  set(parts.state, colour === "good" ? "" : told.state.replaceAll("_", " "));
  set(parts.depth, told.mailbox > 0 ? String(told.mailbox) : "");
  set(parts.again, told.restarts > 0 ? `↻ ${told.restarts}` : "");
  set(parts.handled, told.handled > 0 ? short(told.handled) : "");
  set(parts.error, colour !== "good" && told.last_error ? told.last_error : "");
  parts.depth.setAttribute("aria-label", `${told.mailbox} waiting`);
  parts.again.setAttribute("aria-label", `${told.restarts} restarts`);
  parts.handled.setAttribute("aria-label", `${told.handled} handled`);
  parts.depth.classList.toggle("deep", told.mailbox >= 10);
  const about = [`${told.path}: ${told.state}`, `up ${ago(told.uptime_s * 1000)}`, `${told.handled} handled, ${told.mailbox} waiting, ${told.restarts} restarts`];
  if (told.last_error) about.push(`last error: ${told.last_error}`);
  line.title = about.join("\n");
  const seen = row.seen;
  row.seen = { state: told.state, restarts: told.restarts, handled: told.handled };
  if (!seen) return;
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
