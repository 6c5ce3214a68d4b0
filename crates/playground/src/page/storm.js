// Chaos for a minute: random strikes at everything while three members talk, a live count, and a card with the result.

import { ask } from "./asking.js";
import { cardOf, drawCard } from "./card.js";
import { complain } from "./composer.js";
import { announce } from "./list.js";
import { at, world } from "./world.js";
import { make, set } from "/dashboard/dom.js";

/** Length of a run in seconds; the page's address may name another one: `/?chaos=10`. */
const SECONDS = 60;
const SECONDS_MIN = 3;
const SECONDS_MAX = 600;
/** Interval of strikes, and the share of them that is aimed beside the actors. */
const STRIKE_MS = 900;
const BESIDE = 0.3;
/** The moments of kills, as parts of the run. The bot is never killed while it restarts. */
const KILLS = [0.3, 0.65];
const KILL = "kill_bot";
/** The members that talk, the minimum pause between two questions of one, and the maximum number of its open ones. */
const TALKERS = 3;
const ASK_MS = 3500;
const OPEN_MAX = 2;
/** Timeout of the last answers after the last strike, and the time without changes after which all are complete. */
const ANSWERS_MS = 180_000;
const WHOLE_MS = 3000;
const LOOK_MS = 250;
const QUESTIONS = ["roll 2d6", "what is 17*23", "hello!", "tell me a tale", "show me some code", "list", "what time is it in Tokyo", "formula"];
const KINDS = ["crash", "crash", "crash", "flood", "freeze"];

/** Returns the length of a run that the page's address asks for, in milliseconds. */
export function lengthOf(search = location.search) {
  const wanted = Number(new URLSearchParams(search).get("chaos"));
  return 1000 * (wanted ? Math.min(SECONDS_MAX, Math.max(SECONDS_MIN, Math.round(wanted))) : SECONDS);
}

/**
 * Adds the button to `root`. `chaos` sends orders and counts; `wound(node, word, kind)` and `killed()` show strikes on
 * the board.
 */
export function startStorm(root, { chaos, wound, killed }) {
  const length = lengthOf();
  const button = make("button", "trouble storm-start", `Chaos for ${length / 1000} seconds`);
  Object.assign(button, { type: "button", title: "Three members talk while random faults hit actors, Discord, the model, the store and the whole bot. A card shows the result." });
  root.append(button);
  let running = null;
  const start = async () => {
    if (running) return;
    running = begin(length, chaos);
    button.disabled = true;
    try {
      await Promise.all([strikes(running, { chaos, wound, killed }), ...running.people.map((member) => talk(running, member))]);
      running.struckFor = Math.min(length, Date.now() - running.from);
      await answers(running);
      await showCard(running, start);
    } catch (error) {
      complain(error.message);
    } finally {
      clearInterval(running.timer);
      running = null;
      button.disabled = false;
      at("storm").hidden = true;
    }
  };
  button.addEventListener("click", start);
  at("storm-stop").addEventListener("click", () => running && (running.stopped = true));
}

function begin(length, chaos) {
  const people = [...world.members.values()].filter((member) => !member.bot).slice(0, TALKERS).map((member) => member.id);
  const here = world.channels.find((channel) => channel.id === world.here);
  const channel = here?.kind === "text" ? here.id : world.channels.find((one) => one.kind === "text")?.id;
  const run = { from: Date.now(), length, people, channel, asked: [], strikes: [], before: { ...chaos.counts() }, stopped: false, chaos };
  run.goesOn = () => !run.stopped && Date.now() - run.from < length;
  run.timer = setInterval(() => showCount(run), LOOK_MS);
  at("storm").hidden = false;
  showCount(run);
  announce(`Chaos for ${length / 1000} seconds has begun.`);
  return run;
}

/** Strikes until the end of the run. A refused order is no strike: its actor was already down. */
async function strikes(run, { chaos, wound, killed }) {
  const kills = KILLS.map((part) => run.from + part * run.length);
  while (run.goesOn()) {
    const due = kills.length > 0 && Date.now() >= kills[0];
    if (due) kills.shift();
    const beside = due ? KILL : Math.random() < BESIDE && pick(chaos.troubles().filter((name) => name !== KILL));
    const struck = beside ? await trouble(chaos, beside, killed) : await strike(chaos, wound);
    if (struck) run.strikes.push({ at: Date.now(), ...struck });
    await rest(run, STRIKE_MS);
  }
}

async function trouble(chaos, name, killed) {
  const done = await chaos.order({ trouble: name }).then(() => true, () => false);
  if (done && name === KILL) killed();
  return done && { what: name };
}

async function strike(chaos, wound) {
  const response = await fetch("/api/v1/tree?children=20").catch(() => null);
  const tree = response?.ok ? await response.json().catch(() => null) : null;
  const node = tree && pick(below(tree));
  if (!node) return null;
  const kind = pick(KINDS);
  const done = await chaos.order({ actor: node.path, strike: kind }).then(() => true, () => false);
  if (done) wound(node, { crash: "crashed", flood: "flooded", freeze: "frozen" }[kind], kind);
  return done && { what: kind };
}

/** All actors but the root. Those of a kind that share one row have no path of their own. */
function below(node) {
  return node.children.flatMap((child) => [...(child.many === undefined ? [child] : []), ...below(child)]);
}

/** One member asks until the end of the run, and waits for answers before asking more. */
async function talk(run, member) {
  await pause(Math.random() * LOOK_MS * 4);
  while (run.goesOn()) {
    const open = run.asked.filter((one) => one.member === member && !answerTo(run, one.id));
    if (open.length < OPEN_MAX) {
      const text = `<@${world.bot}> ${pick(QUESTIONS)}`;
      const said = await ask("POST", "/playground/messages", { member, channel: run.channel, text });
      run.asked.push({ id: said.id, member, at: Date.now() });
    }
    await rest(run, ASK_MS);
  }
}

/** Pauses, at most until the end of the run. */
async function rest(run, time) {
  for (let left = time; left > 0 && run.goesOn(); left -= LOOK_MS) await pause(Math.min(left, LOOK_MS));
}

function repliesTo(run, id) {
  return (world.messages.get(run.channel) ?? []).filter((message) => message.author === world.bot && message.reply_to === id);
}

/** The answer to a question: a message of the bot, or its reaction if a limit allows no message. */
function answerTo(run, id) {
  const question = (world.messages.get(run.channel) ?? []).find((message) => message.id === id);
  return repliesTo(run, id)[0] ?? question?.reactions?.find(({ by }) => by.includes(world.bot)) ?? null;
}

/** Waits until every question is answered and none of their turns is open. Other turns may wait for an approval. */
async function answers(run) {
  const until = Date.now() + ANSWERS_MS;
  let [seen, since] = ["", Date.now()];
  while (Date.now() < until) {
    const now = JSON.stringify(run.asked.map(({ id }) => repliesTo(run, id).map((message) => message.edits)));
    if (now !== seen) [seen, since] = [now, Date.now()];
    if (Date.now() - since > WHOLE_MS && run.asked.every(({ id }) => answerTo(run, id))) {
      const turns = await lastTurns();
      const ours = new Set(run.asked.map(({ id }) => id));
      if (turns && !turns.some((turn) => !turn.earlier && turn.ended_ms === null && ours.has(turn.message))) return;
    }
    await pause(LOOK_MS);
  }
}

async function lastTurns() {
  const response = await fetch("/api/v1/turns?limit=200").catch(() => null);
  return response?.ok ? (await response.json().catch(() => null))?.turns ?? null : null;
}

/** The counts of a run so far. A lost or doubled turn counts if either the chat or the bot says so. */
function countsOf(run) {
  const { crashes, lost, doubled } = run.chaos.counts();
  const answered = run.asked.filter(({ id }) => answerTo(run, id)).length;
  const twice = run.asked.filter(({ id }) => repliesTo(run, id).length > 1).length;
  return {
    strikes: run.strikes.length, kills: run.strikes.filter(({ what }) => what === KILL).length, asked: run.asked.length, answered,
    crashes: crashes - run.before.crashes, lost: lost - run.before.lost, doubled: Math.max(twice, doubled - run.before.doubled),
  };
}

function showCount(run) {
  const { strikes: struck, asked, answered, crashes, lost, doubled } = countsOf(run);
  const left = Math.ceil((run.from + run.length - Date.now()) / 1000);
  const head = run.struckFor || !run.goesOn() ? `Waiting for ${asked - answered || "the end of all"} ${asked - answered === 1 ? "answer" : "answers"}` : `Chaos, ${left} s left`;
  set(at("storm-words"), `${head}: ${struck} strikes, ${crashes} crashes, ${asked} questions, ${answered} answered, lost ${lost}, doubled ${doubled}`);
  at("storm-stop").hidden = Boolean(run.struckFor) || !run.goesOn();
}

async function showCard(run, again) {
  const [turns, ready] = await Promise.all([lastTurns(), fetch("/readyz").then((response) => response.json()).catch(() => ({}))]);
  const outcomes = new Map((turns ?? []).map((turn) => [turn.message, turn.outcome]));
  const talks = run.asked.map(({ id, member, at: from }) => {
    const answer = repliesTo(run, id)[0];
    const question = world.messages.get(run.channel)?.find((message) => message.id === id);
    const began = question?.sent_at ?? from;
    return { member, from: began, to: answer ? Math.max(answer.sent_at, answer.edited_at ?? 0) : null, apology: outcomes.get(id) === "apologised" };
  });
  const counts = countsOf(run);
  // A question without an answer is lost, whatever the bot counted.
  counts.lost = Math.max(counts.lost, counts.asked - counts.answered);
  const card = cardOf({ ...run, talks, counts, version: ready.version ?? "", names: new Map(run.people.map((id) => [id, world.members.get(id)?.name ?? "?"])) });
  const canvas = make("canvas", "card", card.words);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", card.words);
  drawCard(canvas, card);
  const dialog = at("card");
  const press = (label, style, act) => {
    const button = make("button", `press ${style}`, label);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  };
  const save = press("Save as a picture", "style-1", () => canvas.toBlob((blob) => {
    const link = Object.assign(make("a"), { href: URL.createObjectURL(blob), download: `staffai-chaos-${new Date(run.from).toISOString().slice(0, 19).replaceAll(":", "-")}.png` });
    link.click();
    URL.revokeObjectURL(link.href);
  }, "image/png"));
  const repeat = press("Once more", "", () => {
    dialog.close();
    setTimeout(again, 0);
  });
  dialog.replaceChildren(canvas, make("p", "ends", press("Close", "", () => dialog.close()), repeat, save));
  dialog.dataset.counts = JSON.stringify(counts);
  dialog.showModal();
  announce(card.words);
}

function pick(list) {
  return list[Math.floor(Math.random() * list.length)];
}

function pause(time) {
  return new Promise((done) => setTimeout(done, time));
}
