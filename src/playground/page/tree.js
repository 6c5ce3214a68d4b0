// The living supervision tree, read each second and marked where it changed.

import { make } from "./text.js";

const PERIOD = 1000;
const PATIENCE = 4000;
/** Children of one node that are drawn; the others are counted. */
const CHILDREN = 40;
const MAX_DEPTH = 12;

const GOOD = new Set(["running", "ready", "up", "open", "connected", "idle", "active", "resumed"]);
const BAD = new Set(["failed", "stopped", "down", "dead", "escalated", "gave_up", "exited", "crashed"]);

const list = document.getElementById("tree");
const sum = document.getElementById("tree-sum");
const toggleDot = document.getElementById("tree-toggle-dot");
const rows = new Map();

let nameOfId = () => undefined;

/** Begins to watch. `resolve` gives the name of what an id stands for, so that people need not read numbers. */
export function watchTree(resolve) {
  nameOfId = resolve;
  const look = async () => {
    if (!document.hidden) await read();
    setTimeout(look, PERIOD);
  };
  look();
}

async function read() {
  try {
    const response = await fetch("/api/v1/tree", { signal: AbortSignal.timeout(PATIENCE) });
    if (!response.ok) throw new Error(`the tree answered ${response.status}`);
    const body = await response.json();
    show(Array.isArray(body) ? body : [body.tree ?? body]);
  } catch (error) {
    sum.textContent = error.name === "TimeoutError" ? "the tree does not answer" : "the tree cannot be read";
    sum.classList.add("lost");
    list.classList.add("stale");
    toggleDot.className = "dot bad";
  }
}

function show(roots) {
  const flat = [];
  const total = { nodes: 0, restarts: 0, mailbox: 0, bad: 0 };
  const walk = (node, path, guides, last, depth) => {
    const own = node.path ?? (path ? `${path}/${node.name}` : node.name);
    total.nodes += 1;
    total.restarts += node.restarts ?? 0;
    total.mailbox += node.mailbox ?? 0;
    if (mood(node.state) === "bad") total.bad += 1;
    flat.push({ key: own, node, branch: depth === 0 ? "" : guides + (last ? "└─ " : "├─ ") });
    const children = node.children ?? [];
    if (depth >= MAX_DEPTH) return;
    const inner = depth === 0 ? "" : guides + (last ? "   " : "│  ");
    const shown = children.slice(0, CHILDREN);
    shown.forEach((child, n) => walk(child, own, inner, n === children.length - 1, depth + 1));
    if (children.length > shown.length) {
      flat.push({ key: `${own}/…`, more: children.length - shown.length, branch: `${inner}└─ ` });
    }
  };
  roots.forEach((root) => walk(root, "", "", true, 0));
  place(flat);
  sum.textContent = `${total.nodes} actors, ${total.restarts} ${total.restarts === 1 ? "restart" : "restarts"}, ${total.mailbox} waiting`;
  sum.classList.remove("lost");
  list.classList.remove("stale");
  toggleDot.className = `dot ${total.bad ? "bad" : "good"}`;
}

function place(flat) {
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
      row = newRow();
      rows.set(entry.key, row);
      if (!first) mark(row.element, "born");
    }
    fill(row, entry);
    const next = after ? after.nextSibling : list.firstChild;
    if (next !== row.element) list.insertBefore(row.element, next);
    after = row.element;
  }
}

function newRow() {
  const parts = {
    branch: make("span", "branch"), dot: make("i", "dot"), name: make("span", "name"), state: make("span", "state"),
    depth: make("span", "chip depth"), again: make("span", "chip again"), handled: make("span", "handled"),
    error: make("span", "error"),
  };
  parts.branch.setAttribute("aria-hidden", "true");
  parts.dot.setAttribute("aria-hidden", "true");
  const line = make("div", "node", parts.branch, parts.dot, parts.name, parts.state, parts.depth, parts.again, parts.handled);
  return { element: make("li", "", line, parts.error), line, parts, seen: null };
}

function fill(row, { node, branch, more }) {
  const { parts, line } = row;
  set(parts.branch, branch);
  if (more) {
    set(parts.name, `${more} more`);
    line.classList.add("more");
    return;
  }
  const colour = mood(node.state);
  parts.dot.className = `dot ${colour}`;
  row.element.style.setProperty("--indent", branch.length);
  set(parts.name, readable(node.name));
  set(parts.state, colour === "good" ? "" : String(node.state ?? "unknown"));
  set(parts.depth, node.mailbox > 0 ? String(node.mailbox) : "");
  set(parts.again, node.restarts > 0 ? `↻ ${node.restarts}` : "");
  set(parts.handled, node.handled > 0 ? short(node.handled) : "");
  set(parts.error, colour !== "good" && node.last_error ? node.last_error : "");
  parts.depth.setAttribute("aria-label", `${node.mailbox} waiting`);
  parts.again.setAttribute("aria-label", `${node.restarts} restarts`);
  parts.handled.setAttribute("aria-label", `${node.handled} handled`);
  parts.depth.classList.toggle("deep", node.mailbox >= 10);
  const about = [`${node.path ?? node.name}: ${node.state}`, `up ${uptime(node.uptime_s)}`, `${node.handled ?? 0} handled`];
  if (node.last_error) about.push(`last error: ${node.last_error}`);
  line.title = about.join("\n");
  const seen = row.seen;
  row.seen = { state: node.state, restarts: node.restarts, handled: node.handled };
  if (!seen) return;
  if (seen.restarts !== node.restarts) mark(row.element, "restarted");
  else if (seen.state !== node.state) mark(row.element, "changed");
  else if (seen.handled !== node.handled) mark(row.element, "worked");
}

function readable(name) {
  return String(name).replace(/\d{15,20}/g, (id) => nameOfId(id) ?? `…${id.slice(-4)}`);
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

/** Plays a mark from its beginning, also when the last one has not ended. */
function mark(element, name) {
  element.classList.remove("born", "restarted", "changed", "worked");
  void element.offsetWidth;
  element.classList.add(name);
}

function mood(state) {
  const word = String(state ?? "").toLowerCase();
  if (GOOD.has(word)) return "good";
  if (BAD.has(word)) return "bad";
  return word === "" ? "unknown" : "busy";
}

function short(number) {
  if (number < 1000) return String(number);
  return number < 1_000_000 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

function uptime(seconds) {
  if (!Number.isFinite(seconds)) return "unknown";
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days}d ${hours}h`;
  if (hours) return `${hours}h ${minutes}m`;
  return minutes ? `${minutes}m ${Math.floor(seconds) % 60}s` : `${Math.floor(seconds)}s`;
}
