// The panel with the bot's internals and the fault injection.

import { startChaos } from "./chaos.js";
import { complain } from "./composer.js";
import { refill } from "./message.js";
import { answered, say } from "./questions.js";
import { killedWhile, sew } from "./seams.js";
import { startStorm } from "./storm.js";
import { view } from "./view.js";
import { at, open, signOf, world } from "./world.js";
import { mountBoard } from "/dashboard/board.js";

/** The fault injection and the board, once they are loaded. */
export const inside = { chaos: null, board: null };

/** The questions of the turns that were open at the last look. */
let unanswered = new Set();

/** Time for which the panel opens by itself where it covers the chat. */
const PEEK_MS = 3200;

/**
 * Crashes a conversation in the middle of an answer, unless cancelled by then, and shows each stage: first the words,
 * then the actor, then the rest.
 */
export function crashWhileItAnswers(wanted = () => true) {
  return inside.chaos.midAnswer(() => {
    if (!wanted()) return false;
    if (getComputedStyle(at("tree-toggle")).display !== "none" && !at("tree-panel").classList.contains("open")) {
      showPanel(true);
      setTimeout(() => showPanel(false), PEEK_MS);
    }
    return true;
  });
}

/** Shows the path of the turn that answers a question. */
export async function followed(question) {
  showPanel(true);
  if (!(await inside.board?.openTurn(question))) complain("This turn is not among the last 200 of this bot process.");
}

/** Shows a struck actor. */
function wound(...struck) {
  inside.board?.wound(...struck);
}

/** Shows that the whole bot was killed. */
function killed() {
  killedWhile([...new Set([...unanswered, ...open.keys()])].map(answerTo).filter(Boolean).map((message) => message.id));
  inside.board?.killed();
}

/** Returns the bot's message that answers a question, in any place. */
function answerTo(question) {
  for (const messages of world.messages.values()) {
    const answer = messages.findLast((message) => message.reply_to === question && message.author === world.bot);
    if (answer) return answer;
  }
  return null;
}

/** Draws a message again, if it is shown. */
function redraw(message) {
  const item = at(`m${message.id}`);
  const now = world.messages.get(message.channel)?.find((one) => one.id === message.id);
  if (item && now) refill(item, now, view);
}

export function showPanel(shown) {
  at("tree-panel").classList.toggle("open", shown);
  at("tree-toggle").setAttribute("aria-expanded", String(shown));
}

export function watchTreePanel() {
  const [toggle, panel, close] = [at("tree-toggle"), at("tree-panel"), at("tree-close")];
  toggle.addEventListener("click", () => showPanel(!panel.classList.contains("open")));
  close.addEventListener("click", () => {
    showPanel(false);
    toggle.focus();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && panel.classList.contains("open") && close.click());
  inside.chaos = startChaos(at("chaos"), {
    bot: () => world.bot,
    complain,
    say: (text) => say(text, null),
    tale: () => world.examples.tour[1],
    wound,
    killed,
  });
  startStorm(at("chaos"), { chaos: inside.chaos, wound, killed });
  inside.board = mountBoard(at("board"), {
    here: true,
    menu: inside.chaos.menu,
    followed: (turns) => {
      const known = turns.filter((turn) => turn.message);
      known.filter((turn) => turn.ended_ms !== null).forEach((turn) => answered(turn.message));
      unanswered = new Set(known.filter((turn) => turn.ended_ms === null).map((turn) => turn.message));
      sew(known, inside.chaos.strikes(), { answerTo, sewn: redraw });
    },
    nameOf: (id) => {
      const channel = world.channels.find((channel) => channel.id === id);
      return channel ? `${signOf(channel)}${channel.name}` : world.members.get(id)?.name;
    },
    summed: (total) => (at("tree-toggle-dot").className = `dot ${total.bad ? "bad" : "good"}`),
  });
}
