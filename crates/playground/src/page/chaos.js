// Fault injection: strikes at actors of the tree, other failures, and counters of the results.

import { keepAsking } from "./asking.js";
import { make, rove, set } from "/dashboard/dom.js";

const STRIKES = [
  ["crash", "Crash", "crashed", "It panics at once."],
  ["freeze", "Freeze", "frozen", "Its handler hangs until the watchdog ends it."],
  ["flood", "Flood", "flooded", "A thousand messages fill its mailbox."],
];
const TROUBLES = {
  cut_discord: ["Cut Discord", "Every connection to Discord is reset."],
  refuse_posts: ["Refuse posts", "Discord answers the next posts with 503."],
  model_down: ["Model down", "For eight seconds, the model refuses requests and breaks off answers."],
  model_slow: ["Model slow", "For eight seconds, the model takes six times as long."],
  store_down: ["Store down", "For eight seconds, the store's file cannot be read or written."],
  kill_bot: ["kill -9 the bot", "The bot's process is killed. The playground restarts it."],
};
const KILL = "kill_bot";
/** Time after which the strike happens even without first words of an answer. */
const WORDS_MS = 8000;
const LOOK_MS = 1000;
/** Maximum number of remembered strikes. */
const STRIKES_MAX = 200;
/** The time span of the counters. */
const SINCE = ", since the playground started, across restarts of the bot";

/**
 * Fills `root`. `say(text)` writes as the current member and returns the message, `tale()` returns a question with a
 * long answer, `wound(node, word, kind)` marks an actor as struck, `killed()` reports that the whole bot was killed,
 * `complain(sentence)` shows an error, `bot()` returns the bot's id.
 */
export function startChaos(root, { say, tale, wound, killed, complain, bot }) {
  const chaos = { token: "", waiting: null, counts: { crashes: 0, lost: 0, doubled: 0 }, strikes: [] };
  const buttons = make("div", "troubles");
  const count = (title) => Object.assign(make("strong", "", "0"), { title });
  const parts = {
    crashes: count(`failures of actors, and unexpected ends of the bot's process${SINCE}`),
    lost: count(`turns closed without a reply or an apology${SINCE}`), doubled: count(`messages that were answered twice${SINCE}`),
  };
  const counts = make("p", "chaos-counts", "crashes ", parts.crashes, " · lost ", parts.lost, " · doubled ", parts.doubled);
  counts.setAttribute("role", "status");
  const show = make("button", "trouble mid-answer", "Crash it while it answers");
  show.type = "button";
  show.title = "Asks for a tale, and crashes the conversation after the first words. You can also click on any actor below.";
  buttons.append(show);
  root.querySelector(".chaos-head").append(counts);
  root.append(buttons);
  rove(root, ".trouble");

  const order = async (body) => {
    const at = Date.now();
    const request = () => fetch("/playground/chaos", {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Staffai-Chaos": chaos.token },
    });
    // The server of this page may be what was struck.
    const response = await request().catch(() => null);
    if (response && !response.ok) throw new Error((await response.json()).error);
    if (body.strike && body.strike !== "flood") chaos.strikes.push({ at, actor: body.actor, kind: body.strike });
    if (chaos.strikes.length > STRIKES_MAX) chaos.strikes.shift();
    setTimeout(look, LOOK_MS / 4);
  };

  const draw = () => {
    for (const [name, part] of Object.entries(parts)) set(part, String(chaos.counts[name]));
    counts.classList.toggle("bad", chaos.counts.lost + chaos.counts.doubled > 0);
  };

  const look = async () => {
    const asked = fetch("/playground/chaos", { signal: AbortSignal.timeout(LOOK_MS) });
    const told = await asked.then((response) => response.ok ? response.json() : null).catch(() => null);
    if (!told) return false;
    chaos.token = told.token;
    chaos.counts = { crashes: told.crashes, lost: told.lost, doubled: told.doubled };
    for (const [name, left] of told.lasting) {
      let button = buttons.querySelector(`[data-trouble="${name}"]`);
      if (!button) {
        button = make("button", "trouble");
        Object.assign(button, { type: "button", title: TROUBLES[name][1] });
        button.dataset.trouble = name;
        button.addEventListener("click", () => order({ trouble: name }).then(() => name === KILL && killed(), (error) => complain(error.message)));
        buttons.append(button);
      }
      button.classList.toggle("lasting", left > 0);
      const text = left > 0 ? `${TROUBLES[name][0]}, ${Math.ceil(left / 1000)} s` : TROUBLES[name][0];
      if (button.textContent !== text) button.textContent = text;
    }
    // Only the demo model can be made to fail.
    chaos.demo = told.lasting.some(([name]) => name === "model_down");
    const offered = new Set(told.lasting.map(([name]) => name));
    buttons.querySelectorAll("[data-trouble]").forEach((button) => offered.has(button.dataset.trouble) || button.remove());
    draw();
    return true;
  };

  const strike = async (node, [kind, , word]) => {
    try {
      await order({ actor: node.path, strike: kind });
      wound(node, word, kind);
    } catch (error) {
      complain(`${node.name}: ${error.message}.`);
    }
  };

  /** Crashes the conversation after the first words of an answer, unless cancelled by then. Returns the question. */
  const midAnswer = async (wanted = () => true) => {
    show.disabled = true;
    try {
      const said = await say(`<@${bot()}> ${tale()}`);
      await new Promise((done) => {
        chaos.waiting = { id: said.id, done };
        setTimeout(done, WORDS_MS);
      });
      const tree = await fetch("/api/v1/tree").then((response) => response.json());
      const talk = find(tree, (node) => node.name.startsWith("conversation:") && node.path.includes(said.channel));
      if (talk && wanted()) await strike(talk, STRIKES[0]);
      return said;
    } catch (error) {
      complain(error.message);
      return null;
    } finally {
      show.disabled = false;
    }
  };
  show.addEventListener("click", () => midAnswer());

  keepAsking(look, LOOK_MS);
  return {
    /** Runs the whole demonstration with one click. */
    midAnswer,
    /** True if answers come from the demo model, which is free of cost. */
    demo: () => chaos.demo === true,
    /** Crashes, and lost or doubled turns, since the playground started. */
    counts: () => chaos.counts,
    /** The last crashes and freezes that this page ordered: `{at, actor, kind}`, in milliseconds since 1970. */
    strikes: () => chaos.strikes,
    /** Sends an order; fails if it is refused. */
    order,
    /** The names of the failures beside those of actors. */
    troubles: () => [...buttons.querySelectorAll("[data-trouble]")].map((button) => button.dataset.trouble),
    /** The token that proves that an order comes from this page. */
    token: () => chaos.token,
    /** The element below an actor of the tree. */
    menu: (node) => make("div", "strikes", ...STRIKES.map((one) => {
      const button = make("button", "trouble", one[1]);
      Object.assign(button, { type: "button", title: one[3] });
      button.addEventListener("click", () => strike(node, one));
      return button;
    })),
    /** Notifies of a new message. */
    created: (message) => {
      if (!chaos.waiting || message.reply_to !== chaos.waiting.id) return;
      chaos.waiting.done();
      chaos.waiting = null;
    },
  };
}

function find(node, is) {
  if (is(node)) return node;
  for (const child of node.children) {
    const found = find(child, is);
    if (found) return found;
  }
  return null;
}
