// Threads from messages.

import { ask } from "./asking.js";
import { complain } from "./composer.js";
import { redrawStarter } from "./list.js";
import { drawChannels, go } from "./places.js";
import { plain } from "./text.js";
import { view } from "./view.js";
import { find, world } from "./world.js";

/** Returns the name of a thread: the text of its first message. */
const THREAD_LETTERS = 48;

/** Shows a new thread. */
export function opened(thread) {
  if (!world.channels.some((channel) => channel.id === thread.id)) world.channels.push(thread);
  drawChannels();
  redrawStarter(thread.id);
}

export async function openThread(id) {
  const known = world.channels.find((channel) => channel.id === id && channel.kind === "thread");
  try {
    const text = plain(find(id)?.content ?? "", view.names).replace(/^(@\S+\s+)+/, "").replace(/\s+/g, " ").trim();
    const name = [...text].slice(0, THREAD_LETTERS).join("") || "thread";
    const thread = known ?? await ask("POST", "/playground/threads", { member: world.me, channel: world.here, message: id, name });
    opened(thread);
    go(thread.id);
  } catch (error) {
    complain(error.message);
  }
}
