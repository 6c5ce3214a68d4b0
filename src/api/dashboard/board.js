// The board: how the program is, who lives in it, what its last turns took, and what was spent. One component for the page
// of its own and for pages that show it beside other things.

import { ago, duration, make, set, short } from "./dom.js";
import { dotsOn } from "./path.js";
import { treeView } from "./tree.js";
import { STRETCHES, turnsView } from "./turns.js";

const PERIOD = 1000;
/** After a strike the tree is looked at so often, for so long; each sixth look is at everything. */
const HASTE = 150;
const HASTE_MS = 7000;
const FOLLOWING = 300;
const WHOLE = 6;
/** Counters and parts change seldom. */
const SELDOM = 4;
const PATIENCE = 4000;
/** How long it is told that the program was away. */
const TOLD_MS = 10_000;
/** Turns that are shown at first, and at most. */
const FEW = 12;
const MANY = 200;
/** What each tile tells. */
const MEANINGS = {
  turns: "messages that were accepted since the start", "first words": "the usual time to the first visible words, of the turns below",
  "tokens in": "tokens that models were given", "tokens out": "tokens that models gave", cost: "what models cost, where their rows have prices",
  refused: "messages over the limits of members", shed: "work turned away because too much was going on",
  lost: "turns closed without an answer or an apology", doubled: "messages answered twice",
};
const FAILURES = { TimeoutError: "does not answer", KeyError: "needs a key", AwayError: "away" };
const REMEDIES = { KeyError: "load the page again to give it", AwayError: "the bot's process is started again" };
const WORDS = { ready: "ready", degraded: "degraded", standby: "standby", starting: "starting", draining: "draining", down: "down" };

/**
 * Builds the board in `root` and keeps it up to date. `nameOf(id)` may name what an id stands for, `told(readiness)` hears
 * how the program is, `summed(total)` what the tree sums up to, `followed(turns)` the newest turns; `menu(node)` may give what opens below an actor. None is needed. What it returns can show that an actor was struck.
 */
export function mountBoard(root, { nameOf = () => undefined, told = () => {}, summed = () => {}, followed = () => {}, menu } = {}) {
  const board = build(root);
  board.tree = treeView(board.treeList, nameOf, menu);
  board.turns = turnsView(board.turnList, board.axis);
  board.dots = dotsOn(board.treeBox, board.tree.nameOf);
  Object.assign(board, { told, summed, followed, many: false, round: 0, last: null, haste: 0, quick: 0 });
  board.all.addEventListener("click", () => {
    board.many = !board.many;
    board.all.textContent = board.many ? "Show fewer" : "Show all";
    look(board);
  });
  const again = async () => {
    board.timer = null;
    const hurry = performance.now() < board.haste;
    board.quick = hurry ? (board.quick + 1) % WHOLE : 0;
    if (!document.hidden) await (board.quick ? lookAtTree(board) : look(board));
    // What is under way is followed more closely.
    const pause = performance.now() < board.haste ? HASTE : board.dots.busy() ? FOLLOWING : PERIOD;
    board.timer = setTimeout(again, pause);
  };
  document.addEventListener("visibilitychange", () => document.hidden || look(board));
  again();
  const hurry = () => {
    board.haste = performance.now() + HASTE_MS;
    // A look that is under way goes on by itself.
    if (board.timer === null) return;
    clearTimeout(board.timer);
    again();
  };
  return {
    wound: (node, word, kind) => {
      board.tree.wound(node, word, kind);
      hurry();
    },
    /** Something was said: there is a turn to be followed soon. */
    expect: hurry,
    /** Opens the path of the turn that answers a message; tells whether it is known. */
    openTurn: async (message) => {
      if (board.turns.open(message)) return true;
      board.many = true;
      board.all.textContent = "Show fewer";
      await look(board);
      return board.turns.open(message);
    },
    /** The whole program was ended. */
    killed: () => {
      lost(board, "killed", REMEDIES.AwayError);
      hurry();
    },
  };
}

function section(title, note, ...children) {
  const heading = make("h3", "", title);
  const sum = make("p", "sum");
  const head = make("header", "part-head", heading, sum, ...note);
  return { sum, element: make("section", "part", head, ...children) };
}

function build(root) {
  const state = make("span", "pill", "waiting");
  const stateNote = make("span", "state-note");
  const status = make("p", "status", state, stateNote);
  status.setAttribute("role", "status");
  const tiles = make("dl", "tiles");
  const meters = make("ul", "meters");
  const spent = make("ul", "spent");
  const treeList = make("ul", "tree");
  const treeBox = make("div", "tree-box", treeList);
  const axis = make("p", "axis");
  const turnList = make("ol", "turns");
  const none = make("p", "none", "No turn yet. Mention the bot and watch it here.");
  const all = make("button", "quiet all", "Show all");
  all.type = "button";
  all.hidden = true;
  const parts = make("ul", "parts");
  const key = make("p", "key", ...STRETCHES.map(([kind, label]) => make("span", "", make("i", `swatch ${kind}`), label)), make("span", "", make("i", "swatch visible"), "first words"));
  const tree = section("Supervision tree", [], treeBox, legend());
  const turns = section("Last turns", [], key, axis, none, turnList, all);
  const about = section("Parts", [], parts);
  const money = section("Limits and costs", [], meters, spent);
  // Where there is one column only, what happens now comes first.
  [tree, turns, money, about].forEach((one, n) => one.element.style.setProperty("--place", n));
  const left = make("div", "column-of-parts", tree.element, about.element);
  const right = make("div", "column-of-parts", turns.element, money.element);
  root.classList.add("board");
  root.append(make("div", "board-inner", status, tiles, make("div", "grid", left, right)));
  return { root, state, stateNote, tiles, meters, spent, treeList, treeBox, axis, turnList, none, all, parts, treeSum: tree.sum, turnSum: turns.sum, partSum: about.sum };
}

function legend() {
  const entries = [
    [make("i", "dot good"), "running"], [make("i", "dot busy"), "starting"], [make("i", "dot bad"), "failed"],
    [make("i", "chip depth", "n"), "waiting"], [make("i", "chip again", "↻ n"), "restarts"], [make("i", "figure", "n"), "handled"],
  ];
  const footer = make("p", "legend", ...entries.map(([sign, word]) => make("span", "", sign, word)));
  footer.setAttribute("aria-hidden", "true");
  return footer;
}

async function look(board) {
  const seldom = board.round % SELDOM === 0;
  board.round += 1;
  try {
    const [tree, turns, readiness, metrics] = await Promise.all([
      read("/api/v1/tree"), read(`/api/v1/turns?limit=${board.many ? MANY : FEW}`),
      seldom ? read("/readyz") : board.last, seldom ? read("/metrics") : board.metrics,
    ]);
    board.last = readiness;
    board.metrics = metrics;
    returned(board);
    showState(board, readiness);
    showTree(board, tree);
    showTurns(board, turns);
    showTiles(board, turns, counters(metrics));
    showMoney(board, turns);
  } catch (error) {
    lost(board, FAILURES[error.name] ?? "cannot be reached", REMEDIES[error.name] ?? "trying again");
  }
}

/** Nothing is known of the program any more: what was known last stays in sight, in other colours. */
function lost(board, what, note) {
  board.round = 0;
  board.gone ||= performance.now();
  board.root.classList.add("stale");
  pill(board.state, "down", what);
  set(board.stateNote, note);
  board.summed({ bad: 1 });
}

function returned(board) {
  board.root.classList.remove("stale");
  if (!board.gone) return;
  // Another life numbers its turns anew.
  board.dots.forget();
  board.back = { took: performance.now() - board.gone, until: performance.now() + TOLD_MS };
  board.gone = 0;
}

/** Between two looks at everything. What cannot be read now is the next look's matter. */
async function lookAtTree(board) {
  const tree = await read("/api/v1/tree").catch(() => null);
  if (tree) showTree(board, tree);
}

async function read(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  // A program that is not ready answers 503 with the same body.
  if (response.status === 401) throw Object.assign(new Error("a key is needed"), { name: "KeyError" });
  if (response.headers.has("x-staffai-away")) throw Object.assign(new Error("away"), { name: "AwayError" });
  if (!response.ok && path !== "/readyz") throw new Error(`${path} answered ${response.status}`);
  return path === "/metrics" ? response.text() : response.json();
}

function pill(element, status, text) {
  element.className = `pill ${status}`;
  if (element.textContent !== text) element.textContent = text;
}

function showState(board, readiness) {
  pill(board.state, readiness.status, WORDS[readiness.status] ?? readiness.status);
  const troubled = readiness.parts.filter((part) => part.status !== "ready");
  const notes = troubled.length ? [`${troubled.map((part) => `${part.kind} ${part.name}`).join(", ")} down`] : [];
  if (board.back && performance.now() < board.back.until) notes.push(`back after ${duration(board.back.took)}`);
  if (readiness.configuration.rejected) notes.push(`new configuration rejected: ${readiness.configuration.rejected}`);
  set(board.stateNote, notes.join("; "));
  board.partSum.textContent = `configuration ${readiness.configuration.version}`;
  board.told(readiness);
  const now = Date.now();
  board.parts.replaceChildren(...readiness.parts.map((part) => {
    const good = part.status === "ready";
    const name = part.kind === part.name ? part.kind : `${part.kind} ${part.name}`;
    const row = make("li", "", make("i", `dot ${good ? "good" : "bad"}`), make("span", "name", name),
      part.restarts ? make("span", "chip again", `↻ ${part.restarts}`) : "",
      make("span", "since", `${part.status} for ${ago(Math.max(0, now - Date.parse(part.since)))}`));
    if (part.last_error) row.append(make("span", good ? "error past" : "error", `${good ? "last error: " : ""}${part.last_error}`));
    return row;
  }));
}

function showTree(board, root) {
  const total = board.tree.show(root);
  board.treeSum.textContent = `${total.nodes} actors, ${total.restarts} ${total.restarts === 1 ? "restart" : "restarts"}, ${total.mailbox} waiting`;
  board.summed(total);
}

function showTurns(board, { turns, accepted }) {
  board.none.hidden = turns.length > 0;
  board.all.hidden = accepted <= FEW;
  board.turnSum.textContent = turns.length ? `${turns.length} of ${accepted}` : "";
  board.turns.show(turns);
  board.dots.show(turns.slice(0, FEW));
  board.followed(turns);
}

/** The counters of a page of metrics, summed over their labels. */
function counters(page) {
  const sums = {};
  for (const line of page.split("\n")) {
    const match = line.match(/^(staffai_[a-z_]+_total)(?:\{[^}]*\})? ([0-9.e+-]+)$/);
    if (match) sums[match[1]] = (sums[match[1]] ?? 0) + Number(match[2]);
  }
  return sums;
}

function showTiles(board, { turns, accepted, spent }, counted) {
  const ended = turns.filter((turn) => turn.ended_ms !== null && turn.steps.length > 0).map((turn) => turn.visible_ms ?? turn.ended_ms).sort((a, b) => a - b);
  const middle = ended[Math.floor((ended.length - 1) / 2)];
  const sum = (field) => spent.reduce((all, row) => all + row[field], 0);
  const priced = spent.filter((row) => row.dollars !== null);
  const lost = counted.staffai_turns_lost_total ?? 0;
  const doubled = counted.staffai_turns_doubled_total ?? 0;
  const figures = [
    ["turns", short(accepted), ""], ["first words", middle === undefined ? "–" : duration(middle), ""],
    ["tokens in", short(sum("prompt_tokens")), ""], ["tokens out", short(sum("completion_tokens")), ""],
    ["cost", priced.length ? dollars(priced.reduce((all, row) => all + row.dollars, 0)) : "–", ""],
    ["refused", short(counted.staffai_limit_refused_total ?? 0), ""],
    ["shed", short(counted.staffai_shed_total ?? 0), counted.staffai_shed_total ? "warn" : ""],
    ["lost", short(lost), lost ? "bad" : "fine"], ["doubled", short(doubled), doubled ? "bad" : "fine"],
  ];
  const told = JSON.stringify(figures);
  if (board.tiles.dataset.told === told) return;
  board.tiles.dataset.told = told;
  board.tiles.replaceChildren(...figures.map(([name, value, mood]) => {
    const tile = make("div", `tile ${mood}`, make("dt", "", name), make("dd", "", value));
    tile.title = MEANINGS[name];
    return tile;
  }));
}

function dollars(amount) {
  return amount !== 0 && amount < 0.01 ? `$${amount.toPrecision(2)}` : `$${amount.toFixed(2)}`;
}

function showMoney(board, { limits, spent, today }) {
  board.meters.replaceChildren(...limits.map((limit) => {
    const fill = make("i", limit.used >= limit.max ? "full" : "");
    fill.style.width = `${Math.min(100, (limit.used / Math.max(1, limit.max)) * 100)}%`;
    return make("li", "", make("span", "name", limit.name), make("span", "meter", fill), make("span", "figure", `${limit.used} of ${limit.max}`));
  }));
  const days = today ? [today] : [];
  board.spent.replaceChildren(...days.map((day) => {
    const cached = day.cached_tokens ? `, ${short(day.cached_tokens)} cached` : "";
    const unpriced = day.unpriced_tokens && day.dollars !== null ? `; ${short(day.unpriced_tokens)} without a price` : "";
    const who = `${day.messages} ${day.messages === 1 ? "message" : "messages"} of ${day.members} ${day.members === 1 ? "member" : "members"}`;
    const figures = `${who}; ${short(day.prompt_tokens)} in${cached}, ${short(day.completion_tokens)} out${unpriced}`;
    return make("li", "", make("span", "name", `${day.day}, all`), make("span", "figure", figures), make("span", "price", day.dollars === null ? "no price" : dollars(day.dollars)));
  }), ...spent.map((row) => {
    const failed = row.failed ? `, ${row.failed} failed` : "";
    const cached = row.cached_tokens ? `, ${short(row.cached_tokens)} cached` : "";
    const figures = `${row.calls} ${row.calls === 1 ? "call" : "calls"}${failed}; ${short(row.prompt_tokens)} in${cached}, ${short(row.completion_tokens)} out`;
    return make("li", "", make("span", "name", row.model), make("span", "figure", figures), make("span", "price", row.dollars === null ? "no price" : dollars(row.dollars)));
  }));
}
