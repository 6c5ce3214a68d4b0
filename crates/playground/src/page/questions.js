// Members' messages and clicks, the awaited answers, and typing indicators.

import { ask } from "./asking.js";
import { complain, takeUp } from "./composer.js";
import { openForm } from "./form.js";
import { inside } from "./inside.js";
import { dots, refill } from "./message.js";
import { view } from "./view.js";
import { at, channelHere, find, messagesHere, open, world } from "./world.js";
import { make } from "/dashboard/dom.js";

const TYPING_MS = 10_000;
/** Timeout of the bot's answer to a command or a button. */
const ANSWER_MS = 3300;
/** Timeout of an answer. */
const OPEN_MS = 180_000;

export async function say(text, reply, files = []) {
  const [member, channel] = [world.me, world.here];
  const heard = reaches(text, reply);
  const said = await ask("POST", "/playground/messages", { member, channel, text, reply_to: reply, files });
  if (heard) {
    open.set(said.id, { member, channel });
    // A question without an answer or turn is not awaited for longer than any turn takes.
    setTimeout(() => answered(said.id), OPEN_MS);
    inside.board?.expect();
  }
  drawTyping();
  return { id: said.id, channel };
}

export function reaches(text, reply) {
  return channelHere()?.kind === "direct" || text.includes(`<@${world.bot}>`) || find(reply)?.author === world.bot;
}

export function answered(question) {
  if (!open.delete(question)) return;
  drawTyping();
  for (const answer of messagesHere().filter((message) => message.reply_to === question)) {
    const item = at(`m${answer.id}`);
    if (item) refill(item, answer, view);
  }
}

/** Cancels a question; its text is put back into the box. */
async function stop(question) {
  const content = find(question)?.content ?? "";
  try {
    await ask("DELETE", `/playground/messages/${open.get(question).channel}/${question}?member=${world.me}`);
    takeUp(content);
  } catch (error) {
    complain(error.message);
  }
}

export function startTyping(channel, user) {
  const typing = world.typing.get(channel) ?? new Map();
  world.typing.set(channel, typing);
  clearTimeout(typing.get(user));
  typing.set(user, setTimeout(() => endTyping(channel, user), TYPING_MS));
  if (channel === world.here) drawTyping();
}

export function endTyping(channel, user) {
  const typing = world.typing.get(channel);
  if (!typing) return;
  clearTimeout(typing.get(user));
  typing.delete(user);
  if (channel === world.here) drawTyping();
}

export function drawTyping() {
  const who = [...(world.typing.get(world.here)?.keys() ?? [])].filter((id) => id !== world.me);
  const names = who.map((id) => world.members.get(id)?.name ?? "an unknown member");
  const mine = [...open].findLast(([, { member, channel }]) => member === world.me && channel === world.here)?.[0];
  const verb = names.length === 1 ? "is" : "are";
  const words = names.length ? [dots(), make("strong", "", names.join(", ")), ` ${verb} typing…`] : [];
  at("typing").replaceChildren(...words);
  at("stop").hidden = !mine;
  at("stop").onclick = () => stop(mine);
}

/** Returns the bot's choices for the option being typed; none after the timeout. */
export async function choices(typing) {
  const begun = await ask("POST", "/playground/choices", { member: world.me, channel: world.here, ...typing }).catch(() => null);
  for (let wait = 50; begun && wait < ANSWER_MS; wait *= 2) {
    await new Promise((done) => setTimeout(done, wait));
    const told = await ask("GET", `/playground/interactions/${begun.id}`).catch(() => null);
    if (!told || told.answered) return told?.choices ?? [];
  }
  return [];
}

/** Performs an interaction that the bot must answer, and reports a missing answer. Fails if it is not possible. */
export async function interact(path, what) {
  const by = { member: world.me, channel: world.here };
  const begun = await ask("POST", path, { ...by, ...what });
  follow(begun.id, by);
}

/** Awaits the first answer, and opens the form if it is one. */
async function follow(interaction, by) {
  for (let wait = 50; wait < ANSWER_MS; wait *= 2) {
    await new Promise((done) => setTimeout(done, wait));
    const told = await ask("GET", `/playground/interactions/${interaction}`).catch(() => ({ answered: true }));
    if (!told.answered) continue;
    if (told.form) openForm(told.form, async (values) => follow((await ask("POST", "/playground/forms", { ...by, interaction, values })).id, by));
    return;
  }
  complain(`${world.members.get(world.bot)?.name ?? "The bot"} did not answer within three seconds.`);
}
