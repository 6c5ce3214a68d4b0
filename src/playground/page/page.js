// The chat: what there is, what happens, and who is looking.

import { startChaos } from "./chaos.js";
import { complain, editMessage, forget, invite, replyTo, sayNow, startComposer, takeUp } from "./composer.js";
import { avatar, dayLine, dots, forMe, messageItem, nameOf, refill, sameDay } from "./message.js";
import { openRoles } from "./roles.js";
import { plain, tickTimes } from "./text.js";
import { mountBoard } from "/dashboard/board.js";
import { make } from "/dashboard/dom.js";
import { themeSwitch } from "/dashboard/theme.js";

/** Messages of a channel that are kept here. */
const KEPT = 300;
const TYPING_MS = 10_000;
const RETRY_MS = 2000;
/** An edited message is read aloud when it has been quiet for so long. */
const SETTLED_MS = 1800;
/** The bot has three seconds to answer a command or a button. */
const ANSWER_MS = 3300;
/** A thread is named after the message that it begins with. */
const THREAD_LETTERS = 48;
/** So near the end of the list new messages pull it along. */
const NEAR_END = 90;
/** The longest that an answer may be waited for. */
const OPEN_MS = 180_000;

/** What is wrong as long as nothing can be asked; it ends with the next connection. */
const AWAY = "The playground cannot be reached. Is it still running?";
/** What is wrong once a key is needed: only going to the page anew lets the browser ask for it. */
const LOCKED = "This page needs a key now. Load it again, and give a key as the password; the name does not matter. What you typed is kept.";

const at = (id) => document.getElementById(id);
const world = {
  guild: null, bot: "", roles: new Map(), members: new Map(), channels: [], messages: new Map(), typing: new Map(), presence: null, commands: [],
};
const news = new Map();
/** Questions of members here whose answers are not whole yet: who asked, and where. */
const open = new Map();
let here = recall("channel");
let loads = 0;
/** Changes that happened while the state was being read; none when it is not. */
let waiting = null;
/** What breaks things on purpose. */
let chaos = null;
/** The inside of the bot, once it is there. */
let board = null;
/** Whether the reader is at the end of the messages. */
let pinned = true;

const view = {
  me: recall("member"),
  get roles() { return world.roles; },
  member: (id) => world.members.get(id),
  find: (id) => messagesHere().find((message) => message.id === id),
  used: (message) => message.command && { member: world.members.get(message.command[0]), name: message.command[1] },
  mayThread: (message) => channelHere()?.kind === "text" && message.channel === here && !message.only_for,
  threadOf: (id) => {
    const thread = channelHere()?.kind === "text" && world.channels.find((channel) => channel.id === id && channel.kind === "thread");
    if (!thread) return null;
    const many = world.messages.get(thread.id)?.length ?? 0;
    return { name: thread.name, words: `${many} ${many === 1 ? "message" : "messages"} ›` };
  },
  thread: openThread,
  press: (message, customId, values) => interact("/playground/presses", { message, custom_id: customId, values }).catch((error) => complain(error.message)),
  mayReply: (message) => !message.only_for,
  mayDelete: (message) => message.author === view.me || message.only_for === view.me || mayManage(view.me),
  names: {
    member: (id) => {
      const member = world.members.get(id);
      return member && { name: member.name, self: id === view.me };
    },
    role: (id) => {
      const role = world.roles.get(id);
      return role && { name: role.name.replace(/^@/, ""), self: false, color: role.color ? `#${role.color.toString(16).padStart(6, "0")}` : "" };
    },
    channel: (id) => world.channels.find((channel) => channel.id === id),
  },
  reply: (id) => {
    const message = view.find(id);
    if (message) replyTo(id, message.author_name);
  },
  edit: (id) => {
    const message = view.find(id);
    if (message) editMessage(id, message.content);
  },
  question: (message) => {
    const question = message.author === world.bot && view.find(message.reply_to);
    return question?.author === view.me && !open.has(question.id) ? question : null;
  },
  hasPath: (message) => message.author === world.bot && Boolean(message.reply_to) && !message.command,
  path: (message) => followed(message.reply_to),
  askAgain: (question) => say(question.content, question.reply_to).catch((error) => complain(error.message)),
  remove: (id) => ask("DELETE", `/playground/messages/${here}/${id}?member=${view.me}`).catch((error) => announce(error.message)),
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

function recall(what) {
  try {
    return sessionStorage.getItem(`playground.${what}`) ?? "";
  } catch {
    return "";
  }
}

function keep(what, value) {
  try {
    sessionStorage.setItem(`playground.${what}`, value);
  } catch {
    // A browser without storage starts with the first channel again.
  }
}

function channelHere() {
  return world.channels.find((channel) => channel.id === here);
}

/** What is shown here; a thread that began with a message begins with it. */
function messagesHere() {
  const all = world.messages.get(here) ?? [];
  const parent = channelHere()?.parent;
  const first = parent && world.messages.get(parent)?.find((message) => message.id === here);
  const seen = (message) => !message.only_for || message.only_for === view.me;
  return (first ? [first, ...all] : all).filter(seen);
}

const MANAGE_MESSAGES = 1n << 13n;
const MANAGE_ROLES = 1n << 28n;

function mayManage(member, right = MANAGE_MESSAGES) {
  const held = world.members.get(member)?.roles ?? [];
  const bits = held.reduce((sum, id) => sum | BigInt(world.roles.get(id)?.permissions ?? 0), 0n);
  return world.guild?.owner === member || (bits & right) !== 0n;
}

async function ask(method, path, body) {
  const options = { method };
  if (body) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(AWAY);
  }
  if (response.status === 401) {
    locked();
    throw new Error(LOCKED);
  }
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Error(sentence(answer?.error ?? `the playground answered ${response.status}`));
  return answer;
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

// What there is.

async function load() {
  const mine = ++loads;
  waiting = [];
  const state = await ask("GET", "/playground/state");
  if (mine !== loads) return;
  world.guild = state.guild;
  world.bot = state.bot;
  world.roles = new Map(state.roles.map((role) => [role.id, role]));
  world.members = new Map(state.members.map((member) => [member.id, member]));
  world.channels = state.channels;
  world.messages = new Map(Object.entries(state.messages));
  world.presence = state.presence;
  world.commands = state.commands;
  world.typing = new Map();
  state.typing.forEach((channel) => startTyping(channel, state.bot));
  if (!world.channels.some((channel) => channel.id === here)) here = world.channels[0]?.id ?? "";
  const people = [...world.members.values()].filter((member) => !member.bot);
  if (!people.some((member) => member.id === view.me)) view.me = people[0]?.id ?? "";
  at("guild").textContent = world.guild?.name ?? "Playground";
  drawPeople();
  drawPlace();
  const missed = waiting;
  waiting = null;
  missed.forEach(apply);
}

function drawPlace() {
  drawChannels();
  const channel = channelHere();
  const name = channel ? channel.name : "nowhere";
  const parent = world.channels.find((known) => known.id === channel?.parent);
  at("back").hidden = !parent;
  at("back").textContent = parent ? `# ${parent.name} ›` : "";
  at("topic").hidden = Boolean(parent);
  at("channel").replaceChildren(make("span", "hash", signOf(channel)), name);
  document.title = `${parent ? "" : "#"}${name} · staffai playground`;
  invite(name, world.members.get(view.me)?.name ?? "nobody", world.members.get(world.bot)?.name ?? "staffai");
  drawMessages();
  drawTyping();
}

function signOf(channel) {
  return { direct: "@", thread: "↳" }[channel?.kind] ?? "#";
}

/** Channels in their order, each followed by its threads. */
function placesInOrder() {
  const threads = (channel) => world.channels.filter((thread) => thread.parent === channel.id);
  return world.channels.filter((channel) => channel.kind !== "thread").flatMap((channel) => [channel, ...threads(channel)]);
}

function drawChannels() {
  at("channels").replaceChildren(...placesInOrder().map((channel) => {
    const fresh = news.get(channel.id);
    const button = make("button", channel.kind === "thread" ? "place thread" : "place", make("span", "hash", signOf(channel)), make("span", "place-name", channel.name));
    button.type = "button";
    if (channel.id === here) button.setAttribute("aria-current", "page");
    if (fresh) {
      button.classList.add("fresh");
      const badge = make("span", fresh.forMe ? "badge for-me" : "badge", String(fresh.count));
      badge.setAttribute("aria-label", `${fresh.count} new`);
      button.append(badge);
    }
    button.addEventListener("click", () => go(channel.id));
    return make("li", "", button);
  }));
}

function go(channel) {
  if (channel === here) return;
  here = channel;
  keep("channel", channel);
  news.delete(channel);
  forget();
  drawPlace();
  at("draft").focus({ preventScroll: true });
}

function drawPeople() {
  const members = [...world.members.values()];
  at("voices").replaceChildren(...members.filter((member) => !member.bot).map((member) => {
    const radio = make("input");
    Object.assign(radio, { type: "radio", name: "voice", value: member.id, checked: member.id === view.me });
    radio.addEventListener("change", () => {
      view.me = member.id;
      keep("member", member.id);
      forget();
      drawPlace();
      drawPeople();
      at("voices").querySelector("input:checked")?.focus();
    });
    const roles = member.roles.map((id) => world.roles.get(id)?.name).filter(Boolean).join(", ");
    const text = make("span", "person", nameOf(member, "", world.roles), make("span", "note", roles || "member"));
    const label = make("label", "voice", radio, avatar(member), text);
    const givable = mayManage(view.me, MANAGE_ROLES) && givableRoles();
    if (!givable?.length) return label;
    const roleButton = make("button", "quiet roles-of", "roles");
    roleButton.type = "button";
    roleButton.setAttribute("aria-label", `Roles of ${member.name}`);
    roleButton.addEventListener("click", () => openRoles(member, givable, (role, held) => ask("POST", "/playground/roles", { member: view.me, user: member.id, role, held })));
    return make("div", "voice-row", label, roleButton);
  }));
  at("bots").replaceChildren(...members.filter((member) => member.bot).map((member) => {
    const [mood, words] = member.id === world.bot ? presenceWords() : ["", "bot"];
    const face = avatar(member);
    if (mood) face.append(make("i", `presence ${mood}`));
    const note = make("span", "note", words);
    note.title = words;
    return make("div", "voice bot", face, make("span", "person", nameOf(member, "", world.roles), note));
  }));
}

/** Roles that the member who looks may give: those below the own, none of a bot. */
function givableRoles() {
  const mine = world.members.get(view.me)?.roles ?? [];
  const rank = world.guild?.owner === view.me ? Infinity : Math.max(0, ...mine.map((id) => world.roles.get(id)?.position ?? 0));
  return [...world.roles.values()].filter((role) => !role.managed && role.id !== world.guild?.id && role.position < rank);
}

function presenceWords() {
  const status = world.presence?.status ?? (world.presence ? "online" : "");
  const activity = world.presence?.activities?.[0];
  if (!activity) return [status, status || "bot"];
  const verbs = { 0: "Playing", 1: "Streaming", 2: "Listening to", 3: "Watching", 5: "Competing in" };
  const words = activity.type === 4 ? activity.state ?? activity.name : `${verbs[activity.type] ?? ""} ${activity.name}`;
  return [status, String(words ?? "").trim() || status];
}

// Messages.

function drawMessages() {
  const messages = messagesHere();
  if (channelHere()?.kind === "thread" && messages.length === 0) {
    at("messages").replaceChildren(make("li", "welcome", make("h3", "", channelHere().name), make("p", "", "A thread. Nobody has said anything here yet.")));
    return;
  }
  const items = [];
  messages.forEach((message, n) => {
    if (n === 0 || !sameDay(message, messages[n - 1])) items.push(dayLine(message));
    items.push(messageItem(message, messages[n - 1], view));
  });
  at("messages").replaceChildren(...(items.length ? items : [welcome()]));
  toEnd();
}

/** What cannot be done without somebody's yes. */
const ASKS_FIRST = "clear the notes";

function welcome() {
  const bot = world.members.get(world.bot)?.name ?? "staffai";
  const channel = world.channels.find((channel) => channel.id === here)?.name ?? "";
  const ideas = ["hello!", "roll 2d6", "draw a boat at sunset", "show me some code", "clear the notes", "help"].map((idea) => {
    const button = make("button", "idea", make("span", "mention", `@${bot}`), ` ${idea}`);
    button.type = "button";
    if (idea === ASKS_FIRST) button.append(make("span", "idea-note", "asks you first"));
    button.addEventListener("click", () => sayNow(`@${bot} ${idea}`));
    return button;
  });
  const crash = make("button", "idea", "crash it while it answers");
  crash.type = "button";
  crash.addEventListener("click", () => {
    showPanel(true);
    chaos.midAnswer();
  });
  ideas.push(crash);
  const image = make("img", "welcome-mark");
  image.src = "/dashboard/icon.svg";
  image.alt = "";
  return make("li", "welcome", image, make("h3", "", `Welcome to #${channel}`),
    make("p", "", `Nobody has said anything here yet. ${bot} answers when it is mentioned or replied to.`),
    make("div", "ideas", ...ideas));
}

function scroller() {
  return at("scroll");
}

function isNearEnd() {
  const box = scroller();
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
}

function toEnd() {
  const box = scroller();
  box.scrollTop = box.scrollHeight;
  pinned = true;
  at("newer").hidden = true;
}

/** Stays at the end while the box, the window or an answer grows. */
function watchEnd() {
  const box = scroller();
  box.addEventListener("scroll", () => {
    pinned = isNearEnd();
    if (pinned) at("newer").hidden = true;
  }, { passive: true });
  const sizes = new ResizeObserver(() => pinned && toEnd());
  sizes.observe(box);
  sizes.observe(at("messages"));
}

function created(message) {
  const messages = world.messages.get(message.channel) ?? [];
  world.messages.set(message.channel, messages);
  if (messages.some((known) => known.id === message.id)) {
    edited(message);
    return;
  }
  chaos?.created(message);
  const previous = messagesHere().at(-1);
  messages.push(message);
  endTyping(message.channel, message.author);
  if (message.only_for && message.only_for !== view.me) return;
  if (message.channel !== here) {
    redrawStarter(message.channel);
    const fresh = news.get(message.channel) ?? { count: 0, forMe: false };
    news.set(message.channel, { count: fresh.count + 1, forMe: fresh.forMe || forMe(message, view) });
    drawChannels();
  } else {
    append(message, previous);
  }
  if (messages.length > KEPT) forgetOldest(message.channel, messages);
  if (message.author === world.bot) settle(message);
  else if (message.author !== view.me && message.channel === here) read(message);
}

/** The message that a thread began with tells how many are in it. */
function redrawStarter(thread) {
  const starter = view.find(thread);
  const item = starter && at(`m${thread}`);
  if (item) refill(item, starter, view);
}

function append(message, previous) {
  const follow = pinned || message.author === view.me;
  const list = at("messages");
  if (!previous) list.replaceChildren();
  if (!previous || !sameDay(message, previous)) list.append(dayLine(message));
  const item = messageItem(message, previous, view);
  item.classList.add("arrived");
  list.append(item);
  if (follow) toEnd();
  else at("newer").hidden = false;
}

function forgetOldest(channel, messages) {
  const oldest = messages.shift();
  if (channel === here) at(`m${oldest.id}`)?.remove();
}

function edited(message) {
  const messages = world.messages.get(message.channel) ?? [];
  const place = messages.findIndex((known) => known.id === message.id);
  if (place < 0) return;
  messages[place] = message;
  // Who goes on with a message after a crash shows by it that nothing is being typed besides.
  endTyping(message.channel, message.author);
  const item = message.channel === here && at(`m${message.id}`);
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

function deleted(channel, id) {
  const messages = world.messages.get(channel) ?? [];
  const place = messages.findIndex((known) => known.id === id);
  if (place < 0) return;
  messages.splice(place, 1);
  answered(id);
  forget(id);
  if (channel !== here) return;
  const box = scroller();
  const [top, near] = [box.scrollTop, pinned];
  drawMessages();
  if (!near) box.scrollTop = top;
}

// Reading aloud: once for each message, and for the bot's growing answers when they have stopped growing.

const settling = new Map();

function settle(message) {
  clearTimeout(settling.get(message.id));
  // It may grow on: a cursor stands behind it as long.
  at(`m${message.id}`)?.classList.add("growing");
  settling.set(message.id, setTimeout(() => {
    settling.delete(message.id);
    at(`m${message.id}`)?.classList.remove("growing");
    const now = world.messages.get(message.channel)?.find((known) => known.id === message.id);
    if (now) answered(now.reply_to);
    if (now && now.channel === here) read(now);
  }, SETTLED_MS));
}

function read(message) {
  announce(`${message.author_name}: ${plain(message.content, view.names)}`);
}

function announce(text) {
  at("said").textContent = text;
}

// Questions that are being answered.

async function say(text, reply, files = []) {
  const [member, channel] = [view.me, here];
  const heard = reaches(text, reply);
  const said = await ask("POST", "/playground/messages", { member, channel, text, reply_to: reply, files });
  if (heard) {
    open.set(said.id, { member, channel });
    // What gets no answer and no turn is not waited for any longer than any turn takes.
    setTimeout(() => answered(said.id), OPEN_MS);
    board?.expect();
  }
  drawTyping();
  return { id: said.id, channel };
}

function reaches(text, reply) {
  return channelHere()?.kind === "direct" || text.includes(`<@${world.bot}>`) || view.find(reply)?.author === world.bot;
}

function answered(question) {
  if (!open.delete(question)) return;
  drawTyping();
  for (const answer of messagesHere().filter((message) => message.reply_to === question)) {
    const item = at(`m${answer.id}`);
    if (item) refill(item, answer, view);
  }
}

/** A question that is taken back is not answered any further; its words are there to be sent again. */
async function stop(question) {
  const content = view.find(question)?.content ?? "";
  try {
    await ask("DELETE", `/playground/messages/${open.get(question).channel}/${question}?member=${view.me}`);
    takeUp(content);
  } catch (error) {
    complain(error.message);
  }
}

/** Shows the path of the turn that answers a question. */
async function followed(question) {
  showPanel(true);
  if (!(await board?.openTurn(question))) complain("This turn is not among the last 200 of the bot's life.");
}

// Typing.

function startTyping(channel, user) {
  const typing = world.typing.get(channel) ?? new Map();
  world.typing.set(channel, typing);
  clearTimeout(typing.get(user));
  typing.set(user, setTimeout(() => endTyping(channel, user), TYPING_MS));
  if (channel === here) drawTyping();
}

function endTyping(channel, user) {
  const typing = world.typing.get(channel);
  if (!typing) return;
  clearTimeout(typing.get(user));
  typing.delete(user);
  if (channel === here) drawTyping();
}

function drawTyping() {
  const who = [...(world.typing.get(here)?.keys() ?? [])].filter((id) => id !== view.me);
  const names = who.map((id) => world.members.get(id)?.name ?? "somebody");
  const mine = [...open].findLast(([, { member, channel }]) => member === view.me && channel === here)?.[0];
  const verb = names.length === 1 ? "is" : "are";
  const words = names.length ? [dots(), make("strong", "", names.join(", ")), ` ${verb} typing…`] : [];
  at("typing").replaceChildren(...words);
  at("stop").hidden = !mine;
  at("stop").onclick = () => stop(mine);
}

// What happens.

const changes = {
  message_created: created,
  message_edited: edited,
  message_deleted: (change) => deleted(change.channel, change.message),
  typing_started: (change) => startTyping(change.channel, change.user),
  role_changed: (change) => {
    const member = world.members.get(change.user);
    if (!member) return;
    member.roles = member.roles.filter((role) => role !== change.role);
    if (change.held) member.roles.push(change.role);
    drawPeople();
    drawMessages();
  },
  thread_opened: ({ change: _, ...thread }) => {
    if (!world.channels.some((channel) => channel.id === thread.id)) world.channels.push(thread);
    drawChannels();
    redrawStarter(thread.id);
  },
  channel_deleted: () => reload(),
};

function apply(change) {
  if (waiting) waiting.push(change);
  else changes[change.change]?.(change);
}

function reload() {
  load().then(() => linked(true), () => linked(false));
}

// Threads, commands and buttons.

async function openThread(id) {
  const known = world.channels.find((channel) => channel.id === id && channel.kind === "thread");
  try {
    const text = plain(view.find(id)?.content ?? "", view.names).replace(/^(@\S+\s+)+/, "").replace(/\s+/g, " ").trim();
    const name = [...text].slice(0, THREAD_LETTERS).join("") || "thread";
    const thread = known ?? await ask("POST", "/playground/threads", { member: view.me, channel: here, message: id, name });
    changes.thread_opened({ change: "", ...thread });
    go(thread.id);
  } catch (error) {
    complain(error.message);
  }
}

/** What the bot offers for what is being typed; nothing when it says nothing in time. */
async function choices(typing) {
  const begun = await ask("POST", "/playground/choices", { member: view.me, channel: here, ...typing }).catch(() => null);
  for (let wait = 50; begun && wait < ANSWER_MS; wait *= 2) {
    await new Promise((done) => setTimeout(done, wait));
    const told = await ask("GET", `/playground/interactions/${begun.id}`).catch(() => null);
    if (!told || told.answered) return told?.choices ?? [];
  }
  return [];
}

/** Does something that the bot has to answer, and says so when it does not. Fails when it cannot be done. */
async function interact(path, what) {
  const begun = await ask("POST", path, { member: view.me, channel: here, ...what });
  setTimeout(async () => {
    const told = await ask("GET", `/playground/interactions/${begun.id}`).catch(() => ({ answered: true }));
    if (!told.answered) complain(`${world.members.get(world.bot)?.name ?? "The bot"} did not answer within three seconds.`);
  }, ANSWER_MS);
}

/** Says that a key is needed, and offers to load the page again. */
function locked() {
  at("link").textContent = "needs a key";
  at("link").className = "link no";
  at("locked").hidden = false;
}

function linked(yes) {
  if (!yes && !at("locked").hidden) return;
  at("locked").hidden = true;
  at("link").textContent = yes ? "connected" : "reconnecting…";
  at("link").className = yes ? "link yes" : "link no";
  if (yes && at("problem").textContent === AWAY) at("problem").hidden = true;
}

function watchChanges() {
  const source = new EventSource("/playground/events");
  const told = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  told("ready", reload);
  told("resync", reload);
  told("change", apply);
  told("presence", (presence) => {
    world.presence = presence;
    drawPeople();
  });
  source.addEventListener("error", () => {
    linked(false);
    if (source.readyState !== EventSource.CLOSED) return;
    // A stream that is refused does not say why.
    ask("GET", "/playground/chaos").catch(() => null);
    setTimeout(watchChanges, RETRY_MS);
  });
}

function people() {
  const entries = [...world.members.values()].map((member) => ({
    name: member.name, token: `<@${member.id}>`, member, note: member.bot ? "bot" : "", first: member.id === world.bot,
  }));
  const roles = [...world.roles.values()].filter((role) => !role.managed && !role.name.startsWith("@"));
  entries.push(...roles.map((role) => ({ name: role.name, token: `<@&${role.id}>`, note: "role" })));
  return entries.sort((a, b) => Number(Boolean(b.first)) - Number(Boolean(a.first)));
}

/** Arrows go from message to message, once the list has the focus. */
function watchArrows() {
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

function showPanel(open) {
  at("tree-panel").classList.toggle("open", open);
  at("tree-toggle").setAttribute("aria-expanded", String(open));
}

function watchTreePanel() {
  const [toggle, panel, close] = [at("tree-toggle"), at("tree-panel"), at("tree-close")];
  toggle.addEventListener("click", () => showPanel(!panel.classList.contains("open")));
  close.addEventListener("click", () => {
    showPanel(false);
    toggle.focus();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && panel.classList.contains("open") && close.click());
  chaos = startChaos(at("chaos"), {
    bot: () => world.bot,
    complain,
    say: (text) => say(text, null),
    wound: (...struck) => board?.wound(...struck),
    killed: () => board?.killed(),
  });
  board = mountBoard(at("board"), {
    menu: chaos.menu,
    followed: (turns) => turns.filter((turn) => turn.ended_ms !== null && turn.message).forEach((turn) => answered(turn.message)),
    nameOf: (id) => {
      const channel = world.channels.find((channel) => channel.id === id);
      return channel ? `${signOf(channel)}${channel.name}` : world.members.get(id)?.name;
    },
    summed: (total) => (at("tree-toggle-dot").className = `dot ${total.bad ? "bad" : "good"}`),
  });
}

startComposer({
  people,
  // A member is offered what their permissions allow; nothing named allows everybody.
  commands: () => world.commands.filter((command) => command.default_member_permissions == null || mayManage(view.me, BigInt(command.default_member_permissions))),
  learn: async () => (world.commands = await ask("GET", "/playground/commands").catch(() => world.commands)),
  choices,
  run: (command) => interact("/playground/commands", command),
  reaches,
  say,
  change: (id, text) => ask("PATCH", `/playground/messages/${here}/${id}`, { member: view.me, text }),
  types: () => ask("POST", "/playground/typing", { member: view.me, channel: here }).catch(() => null),
  lastOwn: () => messagesHere().findLast((message) => message.author === view.me),
});
at("load-again").addEventListener("click", () => location.reload());
at("back").addEventListener("click", () => go(channelHere().parent));
at("newer").addEventListener("click", toEnd);
watchEnd();
tickTimes();
at("messages").addEventListener("click", (event) => {
  const item = event.target.closest("li.message");
  if (!item || event.target.closest("button, a, select, [role=button], figure")) return;
  if (matchMedia("(hover: none)").matches) item.classList.toggle("touched");
  else if (getSelection().isCollapsed) item.querySelector(".path-of")?.click();
});
watchArrows();
themeSwitch(at("theme"));
watchTreePanel();
watchChanges();
