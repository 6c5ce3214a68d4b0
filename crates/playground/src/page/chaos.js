// Break it: strikes at actors of the tree, trouble beside them, and the counts that say what came of it.

import { keepAsking } from "./asking.js";
import { make, rove, set } from "/dashboard/dom.js";

const STRIKES = [
  ["crash", "Crash", "crashed", "It panics at once."],
  ["freeze", "Freeze", "frozen", "Its handler hangs until the watchdog ends it."],
  ["flood", "Flood", "flooded", "A thousand messages wait in its mailbox."],
];
const TROUBLES = {
  cut_discord: ["Cut Discord", "Every connection to Discord is reset."],
  refuse_posts: ["Refuse posts", "Discord answers the next posts with 503."],
  model_down: ["Model down", "The model refuses requests and breaks off answers for eight seconds."],
  model_slow: ["Model slow", "The model takes six times as long for eight seconds."],
  store_down: ["Store down", "The store's file cannot be read or written for eight seconds."],
  kill_bot: ["kill -9 the bot", "The bot's process ends at once, without a word. The playground starts it again."],
};
const KILL = "kill_bot";
/** How long the first words of an answer may take before the strike comes anyway. */
const WORDS_MS = 8000;
const LOOK_MS = 1000;
/** Of what time the counts are. */
const SINCE = ", since the playground started, over all restarts of the bot";

/**
 * Fills `root`. `say(text)` writes for the member who looks and tells the message, `tale()` is a question with a long answer, `wound(node, word, kind)` shows a strike in the
 * tree, `killed()` that the whole bot was ended, `complain(sentence)` says what went wrong, `bot()` is the bot's id.
 */
export function startChaos(root, { say, tale, wound, killed, complain, bot }) {
  const chaos = { token: "", waiting: null, counts: { crashes: 0, lost: 0, doubled: 0 } };
  const buttons = make("div", "troubles");
  const count = (title) => Object.assign(make("strong", "", "0"), { title });
  const parts = {
    crashes: count(`lives of actors that ended by a failure, and ends of the bot's process${SINCE}`),
    lost: count(`turns closed without a reply or an apology${SINCE}`), doubled: count(`triggers that were found answered twice${SINCE}`),
  };
  const counts = make("p", "chaos-counts", "crashes ", parts.crashes, " · lost ", parts.lost, " · doubled ", parts.doubled);
  counts.setAttribute("role", "status");
  const show = make("button", "trouble mid-answer", "Crash it while it answers");
  show.type = "button";
  show.title = "Asks for a tale, and crashes the conversation after the first words. Any actor below can be clicked, too.";
  buttons.append(show);
  root.querySelector(".chaos-head").append(counts);
  root.append(buttons);
  rove(buttons, "button");

  const order = async (body) => {
    const request = () => fetch("/playground/chaos", {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Staffai-Chaos": chaos.token },
    });
    // Whoever serves this page may be the one who is struck.
    const response = await request().catch(() => null);
    if (response && !response.ok) throw new Error((await response.json()).error);
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
    // A real model cannot be told to fail.
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

  /** Crashes the conversation after the first words of an answer, if that is still wanted then. Tells the question. */
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
    /** Shows the whole story at one click. */
    midAnswer,
    /** Whether answers come from the demo model, which costs nobody anything. */
    demo: () => chaos.demo === true,
    /** Crashes, and turns that were lost or doubled, since the playground started. */
    counts: () => chaos.counts,
    /** What shows that an order comes from this page. */
    token: () => chaos.token,
    /** What opens below an actor of the tree. */
    menu: (node) => make("div", "strikes", ...STRIKES.map((one) => {
      const button = make("button", "trouble", one[1]);
      Object.assign(button, { type: "button", title: one[3] });
      button.addEventListener("click", () => strike(node, one));
      return button;
    })),
    /** A message was written. */
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
