// The messages of the current place: adding, changing and removing them, and announcements to screen readers.

import { forget, sayNow } from "./composer.js";
import { crashWhileItAnswers, inside } from "./inside.js";
import { dayLine, forMe, messageItem, reach, refill, sameDay } from "./message.js";
import { drawChannels } from "./places.js";
import { answered, endTyping } from "./questions.js";
import { showFound } from "./search.js";
import { openSetup } from "./setup.js";
import { hear } from "./seams.js";
import { plain } from "./text.js";
import { startTour } from "./tour.js";
import { view } from "./view.js";
import { at, channelHere, find, messagesHere, news, open, world } from "./world.js";
import { make } from "/dashboard/dom.js";

/** Number of messages kept per channel. */
const KEPT = 300;
/** Time without edits after which an edited message is announced. */
const SETTLED_MS = 1800;
/** Distance from the end within which new messages scroll the list. */
const NEAR_END = 90;

/** True if the reader is at the end of the messages. */
let pinned = true;
/**
 * The last scroll position. Only scrolling up leaves the end; content that grows above or below, such as a picture,
 * does not.
 */
let lastTop = 0;

export function drawMessages() {
  const messages = messagesHere();
  if (channelHere()?.kind === "thread" && messages.length === 0) {
    at("messages").replaceChildren(make("li", "welcome", make("h3", "", channelHere().name), make("p", "", "A thread without messages so far.")));
    return;
  }
  const items = [];
  messages.forEach((message, n) => {
    if (n === 0 || !sameDay(message, messages[n - 1])) items.push(dayLine(message));
    items.push(messageItem(message, messages[n - 1], view));
  });
  at("messages").replaceChildren(...(items.length ? items : [welcome()]));
  showFound();
  toEnd();
}

function welcome() {
  const bot = world.members.get(world.bot)?.name ?? "staffai";
  const channel = world.channels.find((channel) => channel.id === world.here)?.name ?? "";
  const alone = channelHere()?.kind === "direct";
  const ideas = world.examples.chips.map(({ ask, note }) => {
    const button = alone ? make("button", "idea", ask) : make("button", "idea", make("span", "mention", `@${bot}`), ` ${ask}`);
    button.type = "button";
    if (note) button.append(make("span", "idea-note", note));
    button.addEventListener("click", () => sayNow(alone ? ask : `@${bot} ${ask}`));
    return button;
  });
  if (alone) {
    const who = world.members.get(world.me)?.name ?? "you";
    return make("li", "welcome", make("h3", "", bot), make("p", "", `A direct conversation of ${who} with ${bot}. It answers without being mentioned.`), make("div", "ideas", ...ideas));
  }
  const crash = make("button", "idea first", "crash it while it answers");
  crash.type = "button";
  crash.addEventListener("click", () => crashWhileItAnswers());
  const tour = make("button", "idea", "take the tour");
  tour.type = "button";
  tour.addEventListener("click", startTour);
  const steps = [["connect my Discord", "discord"], ["use my model", "model"]].map(([label, part]) => {
    const button = make("button", "idea step", label);
    button.type = "button";
    button.addEventListener("click", () => openSetup(part));
    return button;
  });
  ideas.unshift(crash);
  ideas.push(tour, ...steps);
  const image = make("img", "welcome-mark");
  image.src = "/dashboard/icon.svg";
  image.alt = "";
  return make("li", "welcome", image, make("h3", "", `Welcome to #${channel}`),
    make("p", "", `There are no messages here yet. ${bot} answers when it is mentioned or replied to.`),
    make("div", "ideas", ...ideas));
}

function scroller() {
  return at("scroll");
}

function isNearEnd() {
  const box = scroller();
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
}

export function toEnd() {
  const box = scroller();
  box.scrollTop = box.scrollHeight;
  pinned = true;
  at("newer").hidden = true;
}

/** Keeps the list at its end while the box, the window or an answer grows. */
export function watchEnd() {
  const box = scroller();
  box.addEventListener("scroll", () => {
    const up = box.scrollTop < lastTop - 1;
    lastTop = box.scrollTop;
    pinned = isNearEnd() || (pinned && !up);
    if (pinned) at("newer").hidden = true;
  }, { passive: true });
  const sizes = new ResizeObserver(() => pinned && toEnd());
  sizes.observe(box);
  sizes.observe(at("messages"));
}

export function created(message) {
  const messages = world.messages.get(message.channel) ?? [];
  world.messages.set(message.channel, messages);
  if (messages.some((known) => known.id === message.id)) {
    edited(message);
    return;
  }
  inside.chaos?.created(message);
  if (message.author === world.bot) hear(message);
  const previous = messagesHere().at(-1);
  messages.push(message);
  endTyping(message.channel, message.author);
  if (message.only_for && message.only_for !== world.me) return;
  if (message.channel !== world.here) {
    redrawStarter(message.channel);
    const fresh = news.get(message.channel) ?? { count: 0, forMe: false };
    news.set(message.channel, { count: fresh.count + 1, forMe: fresh.forMe || forMe(message, view) });
    drawChannels();
  } else {
    append(message, previous);
  }
  if (messages.length > KEPT) forgetOldest(message.channel, messages);
  if (message.author === world.bot) settle(message);
  else if (message.author !== world.me && message.channel === world.here) read(message);
}

/** Shows the number of messages of a thread at its first message. */
export function redrawStarter(thread) {
  const starter = find(thread);
  const item = starter && at(`m${thread}`);
  if (item) refill(item, starter, view);
}

function append(message, previous) {
  const follow = pinned || message.author === world.me;
  const list = at("messages");
  if (!previous) list.replaceChildren();
  if (!previous || !sameDay(message, previous)) list.append(dayLine(message));
  const item = messageItem(message, previous, view);
  item.classList.add("arrived");
  list.append(item);
  showFound();
  if (follow) toEnd();
  else at("newer").hidden = false;
}

function forgetOldest(channel, messages) {
  const oldest = messages.shift();
  if (channel === world.here) at(`m${oldest.id}`)?.remove();
}

export function edited(message) {
  const messages = world.messages.get(message.channel) ?? [];
  const place = messages.findIndex((known) => known.id === message.id);
  if (place < 0) return;
  messages[place] = message;
  if (message.author === world.bot) hear(message);
  // An edit of a message after a crash shows that its author is no longer typing a new one.
  endTyping(message.channel, message.author);
  const item = message.channel === world.here && at(`m${message.id}`);
  if (item) {
    refill(item, message, view);
    for (const answer of messages.filter((other) => other.reply_to === message.id)) {
      const answerItem = at(`m${answer.id}`);
      if (answerItem) refill(answerItem, answer, view);
    }
    if (pinned) toEnd();
  }
  if (message.author === world.bot) settle(message);
}

/** Updates the reactions to a message. */
export function reacted({ channel, message: id, reactions }) {
  const message = world.messages.get(channel)?.find((known) => known.id === id);
  if (!message) return;
  message.reactions = reactions;
  // If the rate limit allows no message, the bot only reacts.
  if (reactions.some(({ by }) => by.includes(world.bot))) answered(id);
  const item = at(`m${id}`);
  if (!item) return;
  const within = item.contains(document.activeElement);
  refill(item, message, view);
  if (within) item.querySelector(".reaction")?.focus({ preventScroll: true });
  if (pinned) toEnd();
}

export function deleted(channel, id) {
  const messages = world.messages.get(channel) ?? [];
  const place = messages.findIndex((known) => known.id === id);
  if (place < 0) return;
  messages.splice(place, 1);
  answered(id);
  forget(id);
  if (channel !== world.here) return;
  const box = scroller();
  const [top, near] = [box.scrollTop, pinned];
  drawMessages();
  if (!near) box.scrollTop = top;
}

const settling = new Map();

function settle(message) {
  clearTimeout(settling.get(message.id));
  // It may still grow: the draft ends with a cursor.
  at(`m${message.id}`)?.classList.add("growing");
  settling.set(message.id, setTimeout(() => {
    settling.delete(message.id);
    at(`m${message.id}`)?.classList.remove("growing");
    const now = world.messages.get(message.channel)?.find((known) => known.id === message.id);
    // A deleted answer is not awaited either.
    answered((now ?? message).reply_to);
    if (now && now.channel === world.here) read(now);
  }, SETTLED_MS));
}

/** Stops awaiting answers that arrived while the page was disconnected. */
export function settleOpen() {
  for (const [question, { channel }] of open) {
    const answer = world.messages.get(channel)?.findLast((message) => message.reply_to === question && message.author === world.bot);
    if (answer) settle(answer);
  }
}

function read(message) {
  announce(`${message.author_name}: ${plain(message.content, view.names)}`);
}

export function announce(text) {
  at("said").textContent = text;
}

/** Arrow keys move between messages while the list has the focus. */
export function watchArrows() {
  let current = null;
  scroller().addEventListener("focusin", (event) => {
    const item = event.target.closest("li.message");
    if (!item || item === current) return;
    if (current) reach(current, false);
    current = item;
    reach(item, true);
  });
  scroller().addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const items = [...at("messages").querySelectorAll("li.message")];
    if (!step || items.length === 0 || event.target.closest("select")) return;
    event.preventDefault();
    const now = items.indexOf(event.target.closest("li.message"));
    const item = items[now < 0 ? items.length - 1 : Math.min(items.length - 1, Math.max(0, now + step))];
    item.tabIndex = -1;
    item.focus();
  });
}
