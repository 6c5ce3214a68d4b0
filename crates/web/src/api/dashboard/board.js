// The board: the state of the program, its actors, the last turns and the costs. One component for the dashboard and
// for the playground's page.

import { detailOf } from "./detail.js";
import { ago, duration, make, rove, set } from "./dom.js";
import { orderOf } from "./order.js";
import { pastOf, treeAt, turnAt } from "./past.js";
import { dotsOn, sameClock } from "./path.js";
import { peopleOf } from "./people.js";
import { processesOf } from "./processes.js";
import { questionsOf } from "./questions.js";
import { counters, figuresNow, showMoney, tilesOn } from "./tiles.js";
import { travelOn } from "./travel.js";
import { CHILDREN, treeView } from "./tree.js";
import { STRETCHES, turnsView } from "./turns.js";
import { useOf } from "./use.js";

const PERIOD = 1000;
/** Source of the tree, with a bounded number of children of each kind. */
const TREE = `/api/v1/tree?children=${CHILDREN}`;
/** After a strike the tree is polled at this interval, for this time; every sixth poll reads everything. */
const HASTE = 150;
const HASTE_MS = 7000;
const FOLLOWING = 300;
const WHOLE = 6;
/** Maximum of the exponential backoff while the program is away. */
const AWAY_MS = 15_000;
const AWAY_FIRST_MS = 500;
/** Counters and parts are polled more rarely. */
const SELDOM = 4;
const PATIENCE = 4000;
/** Time span of the sparklines. */
const SPAN_MS = 600_000;
const SHORT_MS = 30_000;
/** Time for which a past outage is shown. */
const TOLD_MS = 10_000;
/** Turns shown initially, in one column and in two, and the maximum. */
const FEWEST = 6;
const FEW = 12;
const TWO_COLUMNS = 860;
const MANY = 200;
const NO_TURN = "No turn yet. Mention the bot and watch it here.";
/** The outcomes of turns; open ones have none yet. */
const OUTCOMES = ["open", "replied", "hinted", "refused", "dropped", "apologised", "failed", "cancelled"];
const FAILURES = { TimeoutError: "does not answer", KeyError: "needs a key", AwayError: "away" };
const REMEDIES = { KeyError: "reload the page to enter it", AwayError: "the bot's process is being restarted" };
const WORDS = { ready: "ready", degraded: "degraded", standby: "standby", starting: "starting", draining: "draining", down: "down" };

/**
 * Builds the board in `root` and keeps it up to date. All callbacks are optional: `nameOf(id)` returns the name for an
 * id, `told(readiness)` receives the readiness, `summed(total)` the totals of the tree, `followed(turns)` the newest
 * turns; `menu(node)` returns an element shown below an actor. `here`: the chat service runs on this machine. The result has a method that marks an actor as struck.
 */
export function mountBoard(root, { nameOf = () => undefined, told = () => {}, summed = () => {}, followed = () => {}, menu, here = false } = {}) {
  const board = build(root);
  if (here) sameClock();
  board.order = orderOf(() => board.last && showMoment(board));
  board.people = peopleOf({ read, nameOf, chosen: (id) => findTurns(board, id), changed: (view) => showView(board, view) });
  board.treeBox.before(board.people.choice, board.order.element);
  board.treeBox.after(board.people.element);
  board.past = pastOf();
  board.tree = treeView(board.treeList, { nameOf, menu, order: board.order, detail: (path) => detailOf(path, board.past) });
  board.figures = tilesOn(board.tiles);
  board.turns = turnsView(board.turnList, board.axis, (turn, reached) => board.dots.replay(turn, reached));
  board.use = useOf(read, nameOf);
  board.money.append(board.use.element);
  board.processes = processesOf(read);
  board.processes.element.style.setProperty("--place", 0);
  board.rightColumn.prepend(board.processes.element);
  board.questions = questionsOf(read, nameOf);
  board.questions.element.style.setProperty("--place", 0);
  board.rightColumn.prepend(board.questions.element);
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
    // A poll in progress schedules the next one itself.
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
    /** Polls soon: a message was sent, or the connection was restored. */
    expect: hurry,
    /** Opens the path of the turn that answers a message; returns true if the turn is known. */
    openTurn: async (message) => {
      if (board.turns.open(message)) return true;
      board.many = true;
      board.all.textContent = "Show fewer";
      await look(board);
      return board.turns.open(message);
    },
    /** The whole program was killed. */
    killed: () => {
      board.travel.now();
      lost(board, "killed", REMEDIES.AwayError);
      hurry();
    },
  };
}

/** Shows the turns of a member or a channel. */
function findTurns(board, id) {
  board.find.value = id;
  board.find.dispatchEvent(new Event("input"));
  board.find.scrollIntoView({ block: "nearest" });
  board.find.focus({ preventScroll: true });
}

/** Shows the tree, or the members or channels in its place. */
function showView(board, view) {
  for (const part of [board.order.element, board.treeBox, board.legend]) part.hidden = view !== "actors";
}

/** Time until the next poll; shorter while turns are in progress. */
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
  Object.assign(find, { type: "search", title: "The id of a channel, a member or a message, or an outcome such as apologised", placeholder: "find a turn: id or outcome", autocomplete: "off", spellcheck: false, maxLength: 128 });
  find.ariaLabel = `Show some turns: those of a channel, a member or a message by its id, or of an outcome (${OUTCOMES.join(", ")})`;
  const all = make("button", "quiet all", "Show all");
  all.type = "button";
  all.hidden = true;
  const parts = make("ul", "parts");
  const key = make("p", "key", ...STRETCHES.map(([kind, label, title]) => entry(kind, label, title)), entry("visible", "first words", "from here on members can read along"));
  state.title = "ready, or degraded when it answers although the store, a model or a tool server is down; down when no shard is connected";
  const signs = legend();
  const tree = section("Supervision tree", "all actors, their supervisors and their states; click an actor for its history", [], treeBox, signs);
  const turns = section("Last turns", "each bar is a turn, from its acceptance to the last part of its answer; click one for its path", [], find, key, axis, none, turnList, all);
  const about = section("Parts", "the parts that readiness depends on: doors, shards, models, the store, tool servers", [], parts);
  const money = section("Limits and costs", "the use of each limit, and the usage of models", [], meters, spent);
  // In one column, current events come first.
  [turns, tree, money, about].forEach((one, n) => one.element.style.setProperty("--place", n));
  const left = make("div", "column-of-parts", tree.element, about.element);
  const right = make("div", "column-of-parts", turns.element, money.element);
  root.classList.add("board");
  const top = make("div", "top-of-board", make("div", "status-row", status));
  root.append(make("div", "board-inner", top, tiles, make("div", "grid", left, right)));
  return { root, top, rightColumn: right, legend: signs, state, stateNote, tiles, meters, spent, treeList, treeBox, axis, turnList, none, all, find, parts, money: money.element, treeSum: tree.sum, turnSum: turns.sum, partSum: about.sum };
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
    [make("i", "dot bad"), "failed", "it failed or stopped; its supervisor restarts it"],
    [make("i", "chip depth", "n"), "waiting", "messages in its mailbox"],
    [make("i", "chip again", "↻ n"), "restarts", "restarts by its supervisor after failures"],
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
    if (seldom) board.questions.look();
    if (seldom) board.processes.look();
    if (seldom) board.people.look();
    board.followed(turns.turns.filter((turn) => !turn.earlier));
    showMoment(board);
  } catch (error) {
    lost(board, FAILURES[error.name] ?? "cannot be reached", REMEDIES[error.name] ?? "trying again");
  }
}

/** The turns that match the search; null without a search. */
async function readFound(board) {
  const wanted = board.find.value.trim();
  if (!wanted) return null;
  const by = OUTCOMES.includes(wanted.toLowerCase()) ? { outcome: wanted.toLowerCase() } : { id: wanted };
  return read(`/api/v1/turns?${new URLSearchParams({ ...by, limit: MANY })}`);
}

/** The program is unreachable: the last known state stays visible in other colours. */
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
  // A new process numbers its turns from the beginning.
  board.dots.forget();
  board.back = { took: performance.now() - board.gone, until: performance.now() + TOLD_MS };
  board.gone = 0;
}

/** Polls the tree alone. A failure is left to the next full poll. */
async function lookAtTree(board) {
  const tree = await read(TREE).catch(() => null);
  if (!tree) return;
  board.liveTree = tree;
  if (!board.travel.sample()) showTree(board, tree);
}

/** Reads the samples since the last poll, if they are due. */
async function readSamples(board) {
  // The clocks of this machine and of the program may differ.
  if (board.sampled && performance.now() - board.sampled < board.past.every()) return;
  board.sampled = performance.now();
  for (let more = true; more;) {
    const told = await read(`/api/v1/samples?after=${board.past.newest()}`);
    board.past.take(told);
    more = told.more && told.samples.length > 0;
  }
}

/** Time range of the sparklines: as far as samples reach, at most ten minutes. */
function span(board) {
  const to = board.past.newest();
  const oldest = board.past.all()[0]?.at ?? to;
  return { from: Math.min(to - SHORT_MS, Math.max(to - SPAN_MS, oldest)), to, every: board.past.every() };
}

/** Shows another moment. Its turns may be older than those shown now. */
async function travelled(board) {
  if (board.travel.sample() && !board.allTurns) {
    board.allTurns = true;
    const turns = await read(`/api/v1/turns?limit=${MANY}`).catch(() => null);
    board.oldTurns = turns?.turns ?? board.oldTurns;
    board.allTurns = false;
  }
  showMoment(board);
}

/** Draws the tree, the turns and the tiles of now or of the selected moment. */
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
    row.title = "the state of this part and since when; ↻ counts how often it recovered";
    if (part.last_error) row.append(make("span", good ? "error past" : "error", `${good ? "last error: " : ""}${part.last_error}`));
    return row;
  }));
}

function showTree(board, root, still = false) {
  const total = board.tree.show(root, still);
  // Removed actors take their counts with them; the metric keeps them.
  const restarts = still ? total.restarts : Math.max(total.restarts, counters(board.metrics ?? "").staffai_actor_restarts_total ?? 0);
  board.treeSum.textContent = `${total.nodes} actors, ${restarts} ${restarts === 1 ? "restart" : "restarts"}, ${total.mailbox} waiting`;
  if (!still) board.summed(total);
}

function showTurns(board, { turns, accepted }) {
  const few = board.root.clientWidth < TWO_COLUMNS ? FEWEST : FEW;
  const found = turns.length;
  if (!board.many) turns = turns.slice(0, few);
  board.none.hidden = turns.length > 0;
  board.none.textContent = board.found ? "None of the last 200 turns matches." : NO_TURN;
  const all = board.found ? found : Math.max(found, accepted);
  board.all.hidden = all <= few;
  board.turnSum.textContent = turns.length ? `${turns.length} of ${all}` : "";
  board.turns.show(turns);
}
