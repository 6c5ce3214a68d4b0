// The page's functions for messages: names, threads, and the actions of buttons.

import { ask } from "./asking.js";
import { complain, editMessage, replyTo } from "./composer.js";
import { followed } from "./inside.js";
import { announce } from "./list.js";
import { interact, say } from "./questions.js";
import { openThread } from "./threads.js";
import { at, channelHere, find, mayManage, open, world } from "./world.js";

export const view = {
  get me() { return world.me; },
  get roles() { return world.roles; },
  member: (id) => world.members.get(id),
  find,
  used: (message) => message.command && { member: world.members.get(message.command[0]), name: message.command[1] },
  mayThread: (message) => channelHere()?.kind === "text" && message.channel === world.here && !message.only_for,
  threadOf: (id) => {
    const thread = channelHere()?.kind === "text" && world.channels.find((channel) => channel.id === id && channel.kind === "thread");
    if (!thread) return null;
    const many = world.messages.get(thread.id)?.length ?? 0;
    return { name: thread.name, words: `${many} ${many === 1 ? "message" : "messages"} ›` };
  },
  thread: openThread,
  press: (message, customId, values) => interact("/playground/presses", { message, custom_id: customId, values }).catch((error) => complain(error.message)),
  react: (message, emoji, held) => ask("POST", "/playground/reactions", { member: world.me, channel: message.channel, message: message.id, emoji, held })
    .catch((error) => complain(error.message)),
  mayReply: (message) => !message.only_for,
  mayDelete: (message) => message.author === world.me || message.only_for === world.me || mayManage(world.me),
  names: {
    member: (id) => {
      const member = world.members.get(id);
      return member && { name: member.name, self: id === world.me };
    },
    role: (id) => {
      const role = world.roles.get(id);
      return role && { name: role.name.replace(/^@/, ""), self: false, color: role.color ? `#${role.color.toString(16).padStart(6, "0")}` : "" };
    },
    channel: (id) => world.channels.find((channel) => channel.id === id),
  },
  reply: (id) => {
    const message = find(id);
    if (message) replyTo(id, message.author_name);
  },
  edit: (id) => {
    const message = find(id);
    if (message) editMessage(id, message.content);
  },
  question: (message) => {
    const question = message.author === world.bot && find(message.reply_to);
    return question?.author === world.me && !open.has(question.id) ? question : null;
  },
  hasPath: (message) => message.author === world.bot && Boolean(message.reply_to) && !message.command,
  path: (message) => followed(message.reply_to),
  askAgain: (question) => say(question.content, question.reply_to).catch((error) => complain(error.message)),
  remove: (id) => ask("DELETE", `/playground/messages/${world.here}/${id}?member=${world.me}`).catch((error) => announce(error.message)),
  jump: (id) => {
    const item = at(`m${id}`);
    if (!item) return;
    item.scrollIntoView({ block: "center", behavior: calm() ? "auto" : "smooth" });
    item.classList.remove("flash");
    void item.offsetWidth;
    item.classList.add("flash");
  },
};

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
