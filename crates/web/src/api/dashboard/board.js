// The board: how the program is, who lives in it, what its last turns took, and what was spent. One component for the page
// of its own and for pages that show it beside other things.

import { detailOf } from "./detail.js";
import { ago, duration, make, rove, set } from "./dom.js";
import { pastOf, treeAt, turnAt } from "./past.js";
import { dotsOn } from "./path.js";
import { counters, figuresNow, showMoney, tilesOn } from "./tiles.js";
import { travelOn } from "./travel.js";
import { CHILDREN, treeView } from "./tree.js";
import { STRETCHES, turnsView } from "./turns.js";
import { useOf } from "./use.js";

const PERIOD = 1000;
/** Where the tree is read: there may be many thousands of one kind. */
const TREE = `/api/v1/tree?children=${CHILDREN}`;
/** After a strike the tree is looked at so often, for so long; each sixth look is at everything. */
const HASTE = 150;
const HASTE_MS = 7000;
const FOLLOWING = 300;
const WHOLE = 6;
/** While the program is away it is asked ever more seldom, up to this. */
const AWAY_MS = 15_000;
const AWAY_FIRST_MS = 500;
/** Counters and parts change seldom. */
const SELDOM = 4;
const PATIENCE = 4000;
/** How far lines reach. */
const SPAN_MS = 600_000;
const SHORT_MS = 30_000;
/** How long it is told that the program was away. */
const TOLD_MS = 10_000;
/** Turns that are shown at first, in one column and in two, and at most. */
const FEWEST = 6;
const FEW = 12;
const TWO_COLUMNS = 860;
const MANY = 200;
const NO_TURN = "No turn yet. Mention the bot and watch it here.";
/** How turns end, or that one did not. */
const OUTCOMES = ["open", "replied", "hinted", "refused", "dropped", "apologised", "failed", "cancelled"];
const FAILURES = { TimeoutError: "does not answer", KeyError: "needs a key", AwayError: "away" };
const REMEDIES = { KeyError: "load the page again to give it", AwayError: "the bot's process is started again" };
const WORDS = { ready: "ready", degraded: "degraded", standby: "standby", starting: "starting", draining: "draining", down: "down" };

/**
 * Builds the board in `root` and keeps it up to date. `nameOf(id)` may name what an id stands for, `told(readiness)` hears
 * how the program is, `summed(total)` what the tree sums up to, `followed(turns)` the newest turns; `menu(node)` may give what opens below an actor. None is needed. What it returns can show that an actor was struck.
 */
export function mountBoard(root, { nameOf = () => undefined, told = () => {}, summed = () => {}, followed = () => {}, menu } = {}) {
  const board = build(root);
  board.past = pastOf();
  board.tree = treeView(board.treeList, { nameOf, menu, detail: (path) => detailOf(path, board.past) });
  board.figures = tilesOn(board.tiles);
  board.turns = turnsView(board.turnList, board.axis);
  board.use = useOf(read, nameOf);
  board.money.append(board.use.element);
  board.dots = dotsOn(board.treeBox, board.tree.nameOf);
  Object.assign(board, { told, summed, followed, many: false, round: 0, last: null, haste: 0, quick: 0, patience: AWAY_FIRST_MS / 2 });
  rove(board.treeList, "button.name");
  rove(board.turnList, ".turn-head");
  board.tree.opened(() => showDetail(board));
  board.find.addEventListener("input", () => {
    board.found = null;
    look(board);
  });
  board.travel = travelOn(() => travelled(board));
  board.top.firstElementChild.append(board.travel.label);
  board.top.append(board.travel.element);
  board.all.addEventListener("click", () => {
    board.many = !board.many;
    board.all.textContent = board.many ? "Show fewer" : "Show all";
    look(board);
  });
  const again = async () => {
    board.timer = null;
    const hurry = performance.now() < board.haste && !board.gone;
    board.quick = hurry ? (board.quick + 1) % WHOLE : 0;
    if (!document.hidden) await (board.quick ? lookAtTree(board) : look(board));
    board.timer = setTimeout(again, pauseOf(board));
  };
  document.addEventListener("visibilitychange", () => document.hidden || look(board));
  addEventListener("online", () => look(board));
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
      board.travel.now();
      board.tree.wound(node, word, kind);
      hurry();
    },
    /** Something was said, or the way to the program is open again: there is something to be seen soon. */
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
      board.travel.now();
      lost(board, "killed", REMEDIES.AwayError);
      hurry();
    },
  };
}

/** How long until the next look. What is under way is followed more closely. */
function pauseOf(board) {
  if (board.gone) {
    board.patience = Math.min(AWAY_MS, board.patience * 2);
    return board.patience;
  }
  board.patience = AWAY_FIRST_MS / 2;
  if (performance.now() < board.haste) return HASTE;
  return board.dots.busy() ? FOLLOWING : PERIOD;
}

function section(title, about, note, ...children) {
  const heading = make("h3", "", title);
  heading.title = about;
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
  const none = make("p", "none", NO_TURN);
  const find = make("input", "find");
  Object.assign(find, { type: "search", title: "The id of a channel, a member or a message, or an outcome such as apologised", placeholder: "id, or an outcome", autocomplete: "off", spellcheck: false, maxLength: 128 });
  find.ariaLabel = `Show some turns: those of a channel, a member or a message by its id, or of an outcome (${OUTCOMES.join(", ")})`;
  const all = make("button", "quiet all", "Show all");
  all.type = "button";
  all.hidden = true;
  const parts = make("ul", "parts");
  const key = make("p", "key", ...STRETCHES.map(([kind, label, title]) => entry(kind, label, title)), entry("visible", "first words", "from here on members can read along"));
  state.title = "ready, or degraded when it answers although the store, a model or a tool server is down; down when no shard is connected";
  const tree = section("Supervision tree", "who exists, who watches whom, and how each is; click an actor for its history", [], treeBox, legend());
  const turns = section("Last turns", "each bar is a turn, from its acceptance to the last part of its answer; click one for its path", [], find, key, axis, none, turnList, all);
  const about = section("Parts", "what readiness looks at: doors, shards, models, the store, tool servers", [], parts);
  const money = section("Limits and costs", "how much of each bound is in use, and what models took", [], meters, spent);
  // Where there is one column only, what happens now comes first.
  [turns, tree, money, about].forEach((one, n) => one.element.style.setProperty("--place", n));
  const left = make("div", "column-of-parts", tree.element, about.element);
  const right = make("div", "column-of-parts", turns.element, money.element);
  root.classList.add("board");
  const top = make("div", "top-of-board", make("div", "status-row", status));
  root.append(make("div", "board-inner", top, tiles, make("div", "grid", left, right)));
  return { root, top, state, stateNote, tiles, meters, spent, treeList, treeBox, axis, turnList, none, all, find, parts, money: money.element, treeSum: tree.sum, turnSum: turns.sum, partSum: about.sum };
}

function entry(kind, label, title) {
  const element = make("span", "", make("i", `swatch ${kind}`), label);
  element.title = title;
  return element;
}

function legend() {
  const entries = [
    [make("i", "dot good"), "running", "the actor handles its messages"],
    [make("i", "dot busy"), "starting", "it starts, waits for its restart, or hangs in a handler"],
    [make("i", "dot bad"), "failed", "it failed or stopped; its supervisor starts it again"],
    [make("i", "chip depth", "n"), "waiting", "messages that wait in its mailbox"],
    [make("i", "chip again", "↻ n"), "restarts", "how often its supervisor started it again after a failure"],
    [make("i", "figure", "n"), "handled", "messages and events from outside that it handled, over all restarts"],
  ];
  const footer = make("p", "legend", ...entries.map(([sign, word, title]) => {
    const entry = make("span", "", sign, word);
    entry.title = title;
    return entry;
  }));
  footer.setAttribute("aria-hidden", "true");
  return footer;
}

async function look(board) {
  const seldom = board.round % SELDOM === 0;
  board.round += 1;
  try {
    const [tree, turns, readiness, metrics] = await Promise.all([
      read(TREE), read(`/api/v1/turns?limit=${board.many ? MANY : FEW}`),
      seldom ? read("/readyz") : board.last, seldom ? read("/metrics") : board.metrics,
    ]);
    board.last = readiness;
    board.metrics = metrics;
    await readSamples(board);
    board.found = await readFound(board);
    returned(board);
    Object.assign(board, { liveTree: tree, liveTurns: turns });
    showState(board, readiness);
    showMoney(board, turns);
    board.use.look();
    board.followed(turns.turns.filter((turn) => !turn.earlier));
    showMoment(board);
  } catch (error) {
    lost(board, FAILURES[error.name] ?? "cannot be reached", REMEDIES[error.name] ?? "trying again");
  }
}

/** The turns that are searched for; null where none are. */
async function readFound(board) {
  const wanted = board.find.value.trim();
  if (!wanted) return null;
  const by = OUTCOMES.includes(wanted.toLowerCase()) ? { outcome: wanted.toLowerCase() } : { id: wanted };
  return read(`/api/v1/turns?${new URLSearchParams({ ...by, limit: MANY })}`);
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
  const tree = await read(TREE).catch(() => null);
  if (!tree) return;
  board.liveTree = tree;
  if (!board.travel.sample()) showTree(board, tree);
}

/** What was sampled since the last look, when it is time. */
async function readSamples(board) {
  // The clock of this machine may be another one than the program's.
  if (board.sampled && performance.now() - board.sampled < board.past.every()) return;
  board.sampled = performance.now();
  for (let more = true; more;) {
    const told = await read(`/api/v1/samples?after=${board.past.newest()}`);
    board.past.take(told);
    more = told.more && told.samples.length > 0;
  }
}

/** What lines reach over: as far as is known, ten minutes at most. */
function span(board) {
  const to = board.past.newest();
  const oldest = board.past.all()[0]?.at ?? to;
  return { from: Math.min(to - SHORT_MS, Math.max(to - SPAN_MS, oldest)), to, every: board.past.every() };
}

/** Another moment is looked at. Turns of then may be older than those that are shown now. */
async function travelled(board) {
  if (board.travel.sample() && !board.allTurns) {
    board.allTurns = true;
    const turns = await read(`/api/v1/turns?limit=${MANY}`).catch(() => null);
    board.oldTurns = turns?.turns ?? board.oldTurns;
    board.allTurns = false;
  }
  showMoment(board);
}

/** The tree, the turns and the tiles, now or at the moment that is looked at. */
function showMoment(board) {
  if (!board.liveTree) return;
  board.travel.show(board.past, span(board));
  const sample = board.travel.sample();
  board.root.classList.toggle("earlier", Boolean(sample));
  if (sample) {
    const turns = (board.oldTurns ?? board.liveTurns.turns).map((turn) => turnAt(turn, sample.at)).filter(Boolean);
    board.dots.forget();
    showTree(board, treeAt(sample, board.liveTree), true);
    showTurns(board, { turns, accepted: sample.figures.turns });
    board.figures.show(sample.figures, board.past, span(board));
  } else {
    showTree(board, board.liveTree);
    showTurns(board, board.found ?? board.liveTurns);
    board.dots.show(board.liveTurns.turns.filter((turn) => !turn.earlier).slice(0, FEW));
    board.figures.show(figuresNow(board.liveTurns, board.metrics), board.past, span(board));
  }
  showDetail(board);
}

function showDetail(board) {
  board.tree.detailed()?.show(span(board), board.travel.sample());
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
    row.title = "how this part is and for how long; ↻ says how often it was lost and came back";
    if (part.last_error) row.append(make("span", good ? "error past" : "error", `${good ? "last error: " : ""}${part.last_error}`));
    return row;
  }));
}

function showTree(board, root, still = false) {
  const total = board.tree.show(root, still);
  // Actors that are gone take their own counts along; the metric keeps them.
  const restarts = still ? total.restarts : Math.max(total.restarts, counters(board.metrics ?? "").staffai_actor_restarts_total ?? 0);
  board.treeSum.textContent = `${total.nodes} actors, ${restarts} ${restarts === 1 ? "restart" : "restarts"}, ${total.mailbox} waiting`;
  if (!still) board.summed(total);
}

function showTurns(board, { turns, accepted }) {
  const few = board.root.clientWidth < TWO_COLUMNS ? FEWEST : FEW;
  const found = turns.length;
  if (!board.many) turns = turns.slice(0, few);
  board.none.hidden = turns.length > 0;
  board.none.textContent = board.found ? "No turn of the last 200 is like this." : NO_TURN;
  const all = board.found ? found : Math.max(found, accepted);
  board.all.hidden = all <= few;
  board.turnSum.textContent = turns.length ? `${turns.length} of ${all}` : "";
  board.turns.show(turns);
}
