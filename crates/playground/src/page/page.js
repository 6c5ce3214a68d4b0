// The chat: reads the state, and applies changes.

import { ask, linked } from "./asking.js";
import { startComposer } from "./composer.js";
import { inside, watchTreePanel } from "./inside.js";
import { created, deleted, drawMessages, edited, reacted, settleOpen, toEnd, watchArrows, watchEnd } from "./list.js";
import { drawPeople, drawPlace, go } from "./places.js";
import { choices, interact, reaches, say, startTyping } from "./questions.js";
import { tickTimes } from "./text.js";
import { watchModels } from "./models.js";
import { watchSearch } from "./search.js";
import { claims, watchSettings } from "./settings.js";
import { watchSetup } from "./setup.js";
import { opened } from "./threads.js";
import { watchTour } from "./tour.js";
import { at, channelHere, mayManage, messagesHere, people, world } from "./world.js";
import { rove } from "/dashboard/dom.js";
import { themeSwitch } from "/dashboard/theme.js";

/** Minimum and maximum of the reconnect backoff. */
const RETRY_MS = 1000;
const RETRY_MOST_MS = 15_000;

let loads = 0;
/** Changes that arrived while the state was being read; null otherwise. */
let waiting = null;

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
  world.examples = state.examples;
  world.typing = new Map();
  state.typing.forEach((channel) => startTyping(channel, state.bot));
  if (!world.channels.some((channel) => channel.id === world.here)) world.here = world.channels[0]?.id ?? "";
  const people = [...world.members.values()].filter((member) => !member.bot);
  if (!people.some((member) => member.id === world.me)) world.me = people[0]?.id ?? "";
  at("guild").textContent = world.guild?.name ?? "Playground";
  drawPeople();
  drawPlace();
  settleOpen();
  const missed = waiting;
  waiting = null;
  missed.forEach(apply);
}

const changes = {
  message_created: (message) => claims(message) || created(message),
  message_edited: (message) => claims(message) || edited(message),
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
  reacted,
  member_joined: ({ member }) => {
    world.members.set(member.id, member);
    drawPeople();
  },
  thread_opened: ({ change: _, ...thread }) => opened(thread),
  channel_deleted: () => reload(),
};

function apply(change) {
  if (waiting) waiting.push(change);
  else changes[change.change]?.(change);
}

function reload() {
  load().then(() => linked(true), () => linked(false));
}

function watchChanges(pause = RETRY_MS) {
  const source = new EventSource("/playground/events");
  let heard = false;
  const told = (name, act) => source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  told("ready", () => {
    heard = true;
    reload();
    inside.board?.expect();
  });
  told("resync", reload);
  told("change", apply);
  told("presence", (presence) => {
    world.presence = presence;
    drawPeople();
  });
  source.addEventListener("error", () => {
    linked(false);
    // A refused stream gives no reason.
    if (source.readyState === EventSource.CLOSED) ask("GET", "/playground/chaos").catch(() => null);
    source.close();
    const next = heard ? RETRY_MS : Math.min(RETRY_MOST_MS, pause * 2);
    const again = () => {
      clearTimeout(timer);
      removeEventListener("online", again);
      watchChanges(next);
    };
    const timer = setTimeout(again, next);
    addEventListener("online", again);
  });
}

startComposer({
  people,
  // Members are offered the commands that their permissions allow; without a requirement, all members.
  commands: () => world.commands.filter((command) => command.default_member_permissions == null || mayManage(world.me, BigInt(command.default_member_permissions))),
  learn: async () => (world.commands = await ask("GET", "/playground/commands").catch(() => world.commands)),
  choices,
  run: (command) => interact("/playground/commands", command),
  reaches,
  say,
  change: (id, text) => ask("PATCH", `/playground/messages/${world.here}/${id}`, { member: world.me, text }),
  types: () => ask("POST", "/playground/typing", { member: world.me, channel: world.here }).catch(() => null),
  lastOwn: () => messagesHere().findLast((message) => message.author === world.me),
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
rove(at("channels"), "button");
rove(at("next"), "a, button");
themeSwitch(at("theme"));
watchTreePanel();
watchChanges();
watchTour();
watchModels();
watchSetup();
watchSettings();
watchSearch(toEnd);
