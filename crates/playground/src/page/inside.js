// The panel with the inside of the bot, and what breaks it on purpose.

import { startChaos } from "./chaos.js";
import { complain } from "./composer.js";
import { answered, say } from "./questions.js";
import { at, signOf, world } from "./world.js";
import { mountBoard } from "/dashboard/board.js";

/** What breaks things on purpose and the inside of the bot, once they are there. */
export const inside = { chaos: null, board: null };

/** For how long the panel comes by itself where it lies above the chat. */
const PEEK_MS = 3200;

/** Crashes a conversation in the middle of an answer, if that is still wanted then, and lets it be seen: first the words, then the actor, then the rest. */
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
  if (!(await inside.board?.openTurn(question))) complain("This turn is not among the last 200 of the bot's life.");
}

export function showPanel(open) {
  at("tree-panel").classList.toggle("open", open);
  at("tree-toggle").setAttribute("aria-expanded", String(open));
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
    wound: (...struck) => inside.board?.wound(...struck),
    killed: () => inside.board?.killed(),
  });
  inside.board = mountBoard(at("board"), {
    menu: inside.chaos.menu,
    followed: (turns) => turns.filter((turn) => turn.ended_ms !== null && turn.message).forEach((turn) => answered(turn.message)),
    nameOf: (id) => {
      const channel = world.channels.find((channel) => channel.id === id);
      return channel ? `${signOf(channel)}${channel.name}` : world.members.get(id)?.name;
    },
    summed: (total) => (at("tree-toggle-dot").className = `dot ${total.bad ? "bad" : "good"}`),
  });
}
