// The workspace: reads what the member sees, and draws it again after each change.

import { ask, linked } from "./asking.js";
import { drawModal } from "./modal.js";
import { draw as drawSlack } from "./mrkdwn.js";
import { draw as drawMarkdown } from "./text.js";
import { at } from "./world.js";
import { make, rove, set } from "/dashboard/dom.js";
import { themeSwitch } from "/dashboard/theme.js";

/** The pause before the page asks again after an error, in milliseconds. */
const RETRY_MS = 1500;
const ROUTES = "/playground/workspace";

const here = { me: "", place: "", thread: "" };
let seen = { people: [], places: [], messages: [], notices: [], status: null, bot: "", connected: false };
let loads = 0;
/** The text of the last drawing of each list, which is not repeated. */
const drawn = new Map();

const name = (id) => (id === seen.bot ? "staffai" : seen.people.find((person) => person.id === id)?.name ?? id);
const direct = () => `D${here.me}`;
const places = () => [...seen.places, { id: direct(), name: "staffai", direct: true }];
const placeHere = () => places().find((place) => place.id === here.place);
const replies = (root) => seen.messages.filter((message) => message.channel === here.place && message.thread === root);

async function load() {
  if (!here.me) here.me = "UADA";
  const mine = ++loads;
  const state = await ask("GET", `${ROUTES}/state?member=${here.me}`);
  // A later load has a newer state, perhaps of another member.
  if (mine !== loads) return;
  openAnswered(state);
  seen = state;
  if (!placeHere()) here.place = seen.places[0]?.id ?? "";
  drawAll();
}

/** Opens the thread of the member's question once the bot answers it. */
function openAnswered(state) {
  const known = new Set(seen.messages.map((message) => message.ts));
  const fresh = state.messages.filter((message) => !known.has(message.ts) && message.user === state.bot && message.thread);
  const own = (root) => state.messages.some((message) => message.ts === root && message.user === here.me && message.channel === here.place);
  const answer = seen.messages.length > 0 && fresh.find((message) => own(message.thread));
  if (answer && !here.thread) here.thread = answer.thread;
}

function drawAll() {
  linked(seen.connected);
  if (!seen.connected) at("link").textContent = "the bot is away";
  repaint("channels", JSON.stringify([places(), here.place]), drawPlaces);
  repaint("voices", JSON.stringify([seen.people, here.me]), drawPeople);
  const place = placeHere();
  at("channel").textContent = place?.direct ? place.name : `# ${place?.name ?? ""}`;
  at("draft").placeholder = place?.direct ? "Message staffai" : `Message #${place?.name ?? ""}`;
  at("mention").hidden = Boolean(place?.direct);
  const roots = seen.messages.filter((message) => message.channel === here.place && !message.thread);
  const notices = seen.notices.filter((notice) => notice.channel === here.place).map((notice) => ({ ...notice, user: seen.bot, only: true }));
  list("messages", [...roots, ...notices].sort((a, b) => (a.ts < b.ts ? -1 : 1)), true);
  drawThread();
  drawModal(seen.dialogue, here.me, "staffai", act, (text) => drawSlack(text, name));
}

function repaint(id, key, paint) {
  if (drawn.get(id) === key) return;
  drawn.set(id, key);
  paint(at(id));
}

function drawPlaces(box) {
  box.replaceChildren(...places().map((place) => {
    const button = make("button", "place", make("span", "hash", place.direct ? "@" : "#"), make("span", "place-name", place.name));
    button.type = "button";
    button.dataset.place = place.id;
    if (place.id === here.place) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => go(place.id));
    return make("li", "", button);
  }));
}

function drawPeople(box) {
  box.replaceChildren(...seen.people.map((person) => {
    const radio = make("input");
    Object.assign(radio, { type: "radio", name: "voice", value: person.id, checked: person.id === here.me });
    radio.addEventListener("change", () => {
      const wasDirect = here.place === direct();
      here.me = person.id;
      if (wasDirect) here.place = direct();
      here.thread = "";
      act(load());
    });
    const words = make("span", "person", make("strong", "", person.name), make("span", "note", person.admin ? " administrator" : ""));
    return make("label", "voice", radio, words);
  }));
}

function list(id, messages, withThreads) {
  const box = at(id);
  const key = JSON.stringify([messages, withThreads && messages.map((message) => replies(message.ts).length), here.me]);
  repaint(id, key, () => {
    const scroll = box.parentElement;
    const atEnd = scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 60;
    const items = messages.map((message) => item(message, withThreads));
    if (items.length === 0) items.push(make("li", "empty-place", "Nothing is written here yet. Mention @staffai, or write to it directly."));
    box.replaceChildren(...items);
    if (atEnd) scroll.scrollTop = scroll.scrollHeight;
  });
}

function item(message, withThreads) {
  const bot = message.user === seen.bot;
  const face = make("span", bot ? "face bot" : "face", bot ? picture("/dashboard/icon.svg") : name(message.user)[0] ?? "?");
  face.setAttribute("aria-hidden", "true");
  const moment = make("time", "", new Date(Number(message.ts) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
  const head = make("div", "said-head", make("strong", "", name(message.user)), moment, message.only ? make("span", "note", "Only visible to you") : "", message.edits > 0 && !bot ? make("span", "note", "(edited)") : "");
  if (message.user === here.me && !message.only) head.append(button("delete", "quiet", () => ask("DELETE", `${ROUTES}/messages/${message.ts}?member=${here.me}`)));
  const body = make("div", "said-body", ...content(message));
  const parts = [head, body, buttons(message)];
  const count = withThreads ? replies(message.ts).length : 0;
  if (count > 0) parts.push(button(count === 1 ? "1 reply" : `${count} replies`, "replies-of", async () => openThread(message.ts)));
  const row = make("li", message.only ? "said only" : "said", face, make("div", "", ...parts));
  row.dataset.ts = message.ts;
  return row;
}

function content(message) {
  const sections = (message.blocks ?? []).filter((block) => block.type === "section").map((block) => block.text?.text ?? "");
  const texts = sections.length > 0 ? sections : [message.text];
  const parts = message.streamed ? [make("div", "", drawMarkdown(message.text, { member: () => null, role: () => null, channel: () => null }))] : texts.map((text) => drawSlack(text, name));
  const file = message.file;
  if (file?.id) {
    const path = `${ROUTES}/files/${encodeURIComponent(file.id)}?member=${here.me}`;
    if (/\.png$/i.test(file.id)) parts.push(picture(path, file.name ?? "a picture"));
    else parts.push(Object.assign(make("a", "", file.name ?? file.id), { href: path }));
  }
  return parts;
}

function picture(address, words = "") {
  return Object.assign(make("img"), { src: address, alt: words });
}

function buttons(message) {
  const elements = (message.blocks ?? []).flatMap((block) => (block.type === "actions" ? block.elements : []));
  if (elements.length === 0) return "";
  return make("div", "said-buttons", ...elements.map((element) => {
    const label = element.text?.text ?? "";
    if (element.url) return Object.assign(make("a", "", label), { href: element.url, rel: "noopener noreferrer", target: "_blank" });
    return button(label, element.style ?? "", () => ask("POST", `${ROUTES}/presses`, { member: here.me, ts: message.ts, label }));
  }));
}

function button(label, classes, press) {
  const made = make("button", classes, label);
  made.type = "button";
  made.addEventListener("click", () => act(press()));
  return made;
}

function drawThread() {
  at("thread").hidden = !here.thread;
  at("work").classList.toggle("open", Boolean(here.thread));
  if (!here.thread) return;
  const root = seen.messages.find((message) => message.ts === here.thread);
  list("replies", root ? [root, ...replies(here.thread)] : [], false);
  const [channel, thread, words] = seen.status ?? [];
  set(at("status"), channel === here.place && thread === here.thread ? `staffai ${words}` : "");
}

function openThread(ts) {
  here.thread = ts;
  drawAll();
  at("reply-draft").focus();
}

function go(place) {
  here.place = place;
  here.thread = "";
  drawAll();
}

/** Shows the reason if an action fails. */
async function act(doing) {
  try {
    await doing;
    at("problem").hidden = true;
  } catch (error) {
    set(at("problem"), error.message);
  }
}

function composer(form, draft, thread) {
  const send = async () => {
    const text = draft.value.trim();
    if (!text) return;
    draft.value = "";
    try {
      await ask("POST", `${ROUTES}/messages`, { member: here.me, channel: here.place, text, ...thread() });
    } catch (error) {
      draft.value ||= text;
      throw error;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(send());
  });
  draft.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    act(send());
  });
}

function watch() {
  const events = new EventSource(`${ROUTES}/events`);
  events.addEventListener("change", () => act(load()));
  events.addEventListener("error", () => {
    linked(false);
    if (events.readyState === EventSource.CLOSED) setTimeout(watch, RETRY_MS);
  });
}

composer(at("composer"), at("draft"), () => {
  // The thread of the answer opens instead.
  here.thread = "";
  return {};
});
composer(at("reply"), at("reply-draft"), () => ({ thread: here.thread }));
at("mention").addEventListener("click", () => {
  at("draft").value = `@staffai ${at("draft").value}`;
  at("draft").focus();
});
at("settings").addEventListener("click", () => act(ask("POST", `${ROUTES}/settings`, { member: here.me })));
at("thread-close").addEventListener("click", () => {
  here.thread = "";
  drawAll();
});
at("load-again").addEventListener("click", () => location.reload());
rove(at("channels"), "button");
themeSwitch(at("theme"));
watch();
