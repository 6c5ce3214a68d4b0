// One message as an element: author, time, quoted message, text, embeds and files.

import { size } from "./files.js";
import { stitch } from "./seams.js";
import { draw, link, plain } from "./text.js";
import { make } from "/dashboard/dom.js";

/** Successive messages of one author within this time share one header. */
const GROUP_MS = 5 * 60 * 1000;
const QUOTE_LETTERS = 140;
const SURE_MS = 3000;
/** The flag of a deferred answer. */
const LOADING = 1 << 7;
/** Picture types that the service displays. */
const PICTURE = /^image\/(png|jpeg|gif|webp)/;

/** A circle with a member's initials, or the lighthouse for a bot. */
export function avatar(member, size = "") {
  const classes = `avatar ${size} ${member?.bot ? "bot" : `hue-${hue(member?.id ?? "0")}`}`;
  const circle = make("span", classes);
  circle.setAttribute("aria-hidden", "true");
  if (member?.bot) {
    const image = make("img");
    image.src = "/dashboard/icon.svg";
    image.alt = "";
    circle.append(image);
  } else {
    circle.textContent = initials(member?.name ?? "?");
  }
  return circle;
}

function initials(name) {
  const words = name.trim().split(/[\s_-]+/).filter(Boolean);
  const letters = words.length > 1 ? [words[0], words[words.length - 1]].map((word) => [...word][0]) : [...name].slice(0, 2);
  return letters.join("").toUpperCase();
}

function hue(id) {
  return Number(BigInt(id) % 6n);
}

/** A name in the colour of the member's highest coloured role. */
export function nameOf(member, fallback, roles) {
  const element = make("span", "who", member?.name ?? fallback);
  const color = colorOf(member, roles);
  if (color) element.style.setProperty("--role", color);
  return element;
}

/** Returns the colour of the highest role that has one, as `#rrggbb`. */
export function colorOf(member, roles) {
  const held = (member?.roles ?? []).map((id) => roles.get(id)).filter((role) => role?.color);
  held.sort((a, b) => b.position - a.position);
  return held.length ? `#${held[0].color.toString(16).padStart(6, "0")}` : "";
}

/** True if a message shares the header of the previous one. */
export function follows(message, previous) {
  return Boolean(previous) && !message.reply_to && !message.command && !previous.command && previous.author === message.author
    && message.sent_at - previous.sent_at < GROUP_MS && sameDay(message, previous);
}

/** True if two messages are of the same day. */
export function sameDay(a, b) {
  return new Date(a.sent_at).toDateString() === new Date(b.sent_at).toDateString();
}

/** The line between two days. */
export function dayLine(message) {
  const day = new Date(message.sent_at).toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" });
  const line = make("li", "day", make("span", "", day));
  return line;
}

/**
 * Draws a message. `view` has `names`, `member(id)`, `roles`, `find(id)`, `me`, `mayReply(message)`,
 * `mayDelete(message)`, and the actions `reply`, `edit`, `remove`, `jump`, `thread` and `press`.
 */
export function messageItem(message, previous, view) {
  const grouped = follows(message, previous);
  const item = make("li", grouped ? "message grouped" : "message");
  item.id = `m${message.id}`;
  item.dataset.id = message.id;
  fill(item, message, grouped, view);
  return item;
}

/** Redraws a message after an edit. */
export function refill(item, message, view) {
  fill(item, message, item.classList.contains("grouped"), view);
}

function fill(item, message, grouped, view) {
  const author = view.member(message.author);
  item.classList.toggle("for-me", forMe(message, view));
  const time = make("time", "time", clock(message.sent_at));
  time.dateTime = new Date(message.sent_at).toISOString();
  time.title = new Date(message.sent_at).toLocaleString();
  const names = { ...view.names, saidAt: message.sent_at };
  const body = make("div", "body", draw(message.content, names));
  if (author?.bot) stitch(body, message, names);
  if (message.flags & LOADING) body.append(make("p", "loading", dots(), `${message.author_name} is thinking…`));
  // Growing answers and the replacement of "is thinking" are edits on the wire, but not to readers.
  if (message.edited_at && !message.command && !author?.bot) {
    const edited = make("span", "edited", "(edited)");
    edited.title = new Date(message.edited_at).toLocaleString();
    (body.lastElementChild?.tagName === "P" ? body.lastElementChild : body).append(" ", edited);
  }
  const parts = [];
  if (message.reply_to) parts.push(quoteLine(message.reply_to, view));
  if (message.command) parts.push(usedLine(view.used(message), view));
  if (grouped) {
    parts.push(make("div", "gutter", time));
  } else {
    parts.push(make("div", "gutter", avatar(author)));
  }
  const head = make("div", "head", nameOf(author, message.author_name, view.roles));
  if (author?.bot) head.append(make("span", "tag", "bot"));
  if (!grouped) head.append(time);
  head.classList.toggle("unseen", grouped);
  parts.push(make("div", "column", head, body, ...extras(message, view)), actions(message, view));
  item.replaceChildren(...parts);
  reach(item, item.classList.contains("current"));
}

/** Tab reaches the actions from their message only, so that a long list has few tab stops. */
export function reach(item, current) {
  item.classList.toggle("current", current);
  for (const button of item.querySelectorAll(".actions button, .quoted, .seam-close")) button.tabIndex = current ? 0 : -1;
}

function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** True if a message notifies the current member. */
export function forMe(message, view) {
  if (message.author === view.me) return false;
  const mine = view.member(view.me)?.roles ?? [];
  return message.mentions.includes(view.me) || message.mention_everyone || message.mention_roles.some((role) => mine.includes(role));
}

function quoteLine(id, view) {
  const original = view.find(id);
  if (!original) return make("div", "quote", make("span", "hook"), make("em", "", "an earlier message that is not shown here"));
  const author = view.member(original.author);
  const text = shorten(plain(original.content, view.names)) || "a message without text";
  const button = make("button", "quoted", make("span", "unseen", "In answer to "), avatar(author, "tiny"), nameOf(author, original.author_name, view.roles), make("span", "excerpt", text));
  button.type = "button";
  button.addEventListener("click", () => view.jump(id));
  return make("div", "quote", make("span", "hook"), button);
}

/** Shows the member who ran the command that a message answers. */
function usedLine(used, view) {
  const who = nameOf(used.member, "An unknown member", view.roles);
  return make("div", "quote", make("span", "hook"), avatar(used.member, "tiny"), who, make("span", "excerpt", `used /${used.name}`));
}

function shorten(text) {
  const letters = [...text];
  return letters.length > QUOTE_LETTERS ? `${letters.slice(0, QUOTE_LETTERS).join("")}…` : text;
}

function extras(message, view) {
  const shown = new Set();
  const out = message.embeds.slice(0, 10).map((embed) => embedCard(embed, message, view, shown));
  out.unshift(...message.attachments.filter((file) => !shown.has(file.id)).map(attached));
  for (const row of message.components.slice(0, 5)) {
    out.push(make("div", "buttons", ...(row.components ?? []).slice(0, 5).map((part) => component(part, message, view))));
  }
  if (message.only_for) out.push(make("p", "fine private", "Only you can see this."));
  const marks = reactions(message, view);
  if (marks) out.push(marks);
  const thread = view.threadOf(message.id);
  if (thread) {
    const button = make("button", "thread-chip", make("span", "thread-name", thread.name), make("span", "note", thread.words));
    button.type = "button";
    button.addEventListener("click", () => view.thread(message.id));
    out.push(button);
  }
  return out;
}

/** Shows the reactions; a click adds or removes the current member's. */
function reactions(message, view) {
  if (!message.reactions?.length) return null;
  const marks = message.reactions.map(({ emoji, by }) => {
    const mine = by.includes(view.me);
    const button = make("button", "reaction", make("span", "", shownEmoji(emoji)), make("span", "count", String(by.length)));
    button.type = "button";
    button.setAttribute("aria-pressed", String(mine));
    const who = by.map((id) => view.member(id)?.name ?? "an unknown member").join(", ");
    button.title = `${who} reacted with ${shownEmoji(emoji)}`;
    button.setAttribute("aria-label", `${shownEmoji(emoji)}, ${by.length}: ${who}`);
    button.addEventListener("click", () => view.react(message, emoji, !mine));
    return button;
  });
  return make("div", "reactions", ...marks);
}

/** A server's own emoji is `name:id`; its picture is not available here. */
function shownEmoji(emoji) {
  return emoji.includes(":") ? `:${emoji.split(":")[0]}:` : emoji;
}

/** The reactions that one click adds. */
const EMOJI = ["👍", "❤️", "😂", "🎉", "👀", "⛵"];

/** One emoji: flags, skin tones and joined ones included. */
const EMOJI_SIGN = /\p{RI}\p{RI}|[#*0-9]\uFE0F?\u20E3|\p{Extended_Pictographic}(?:\p{EMod}|\uFE0F)?(?:\u200D\p{Extended_Pictographic}(?:\p{EMod}|\uFE0F)?)*/u;

function picker(message, view, bar) {
  const row = make("span", "picker", ...EMOJI.map((emoji) => {
    const button = make("button", "quiet", emoji);
    button.type = "button";
    button.setAttribute("aria-label", `React with ${emoji}`);
    button.addEventListener("click", () => view.react(message, emoji, true));
    return button;
  }));
  row.append(anyEmoji((emoji) => view.react(message, emoji, true)));
  bar.replaceChildren(row);
  row.firstChild.focus();
}

/** A field for any emoji: the keyboard and the emoji picker of the system write into it. */
function anyEmoji(react) {
  const field = make("input", "any-emoji");
  Object.assign(field, { type: "text", placeholder: "any", autocomplete: "off", maxLength: 32, title: "Type an emoji, or open the system's emoji picker: Windows + . or Ctrl + Cmd + Space" });
  field.setAttribute("aria-label", "React with any emoji");
  field.addEventListener("input", (event) => {
    const emoji = field.value.match(EMOJI_SIGN)?.[0];
    if (emoji && !event.isComposing) react(emoji);
  });
  return field;
}

/** Three moving dots. */
export function dots() {
  const three = make("span", "dots", make("i"), make("i"), make("i"));
  three.setAttribute("aria-hidden", "true");
  return three;
}

function fileUrl(file) {
  return `/playground/files/${file.id}/${encodeURIComponent(file.filename)}`;
}

function attached(file) {
  const save = make("a", "file", make("span", "file-name", file.filename), make("span", "file-size", size(file.size)));
  Object.assign(save, { href: fileUrl(file), download: file.filename });
  return PICTURE.test(file.content_type) ? picture(file, save) : save;
}

function picture(file, instead) {
  const image = make("img", "picture");
  Object.assign(image, { src: fileUrl(file), alt: file.description || file.filename, title: `${file.filename}, ${size(file.size)}` });
  // Reserves the space while it loads, so that nothing below moves.
  if (file.pixels) [image.width, image.height] = file.pixels;
  const open = make("a", "picture-link", image);
  Object.assign(open, { href: fileUrl(file), target: "_blank", rel: "noopener" });
  image.addEventListener("error", () => open.replaceWith(instead), { once: true });
  return open;
}

/** Returns the attachment that an embed's address refers to. */
function meant(address, message) {
  const id = address.match(/\/attachments\/\d+\/(\d+)\//)?.[1];
  return message.attachments.find((file) => file.id === id || address === `attachment://${file.filename}`);
}

function embedCard(embed, message, view, shown) {
  const card = make("div", "embed");
  if (Number.isInteger(embed.color)) card.style.setProperty("--edge", `#${embed.color.toString(16).padStart(6, "0")}`);
  if (embed.author?.name) card.append(make("p", "fine", String(embed.author.name)));
  if (embed.title) card.append(make("p", "heading heading-3", embed.url ? link(String(embed.url), String(embed.title)) : String(embed.title)));
  if (embed.description) card.append(draw(String(embed.description), view.names));
  const fields = (embed.fields ?? []).map((field) => make("div", field.inline ? "field" : "field wide", make("strong", "", String(field.name)), draw(String(field.value), view.names)));
  if (fields.length) card.append(make("div", "fields", ...fields));
  // Pictures from elsewhere are never loaded; their address is shown instead.
  for (const told of [embed.image, embed.thumbnail].filter((told) => told?.url)) {
    const file = meant(String(told.url), message);
    if (file) {
      shown.add(file.id);
      card.append(attached(file));
    } else card.append(make("p", "", make("span", "fine", "picture "), link(String(told.url), String(told.url))));
  }
  if (embed.url && !embed.title) card.append(make("p", "", link(String(embed.url), String(embed.url))));
  if (embed.footer?.text) card.append(make("p", "fine", String(embed.footer.text)));
  return card;
}

function component(part, message, view) {
  const label = String(part.label ?? part.placeholder ?? "menu");
  if (part.style === 5 && part.url) return link(String(part.url), label);
  if (part.type === 3) return menu(part, message, view, label);
  const emoji = part.emoji?.name && !part.emoji.id ? `${part.emoji.name} ` : "";
  const button = make("button", `press style-${Number(part.style) || 2}`, emoji + label);
  button.type = "button";
  button.disabled = part.disabled === true || !part.custom_id;
  button.addEventListener("click", () => view.press(message.id, part.custom_id, []));
  return button;
}

function menu(part, message, view, label) {
  const choices = (part.options ?? []).slice(0, 25).map((option) => new Option(String(option.label), String(option.value), false, option.default === true));
  const select = make("select", "menu", new Option(label, "", true, !choices.some((choice) => choice.selected)), ...choices);
  select.options[0].disabled = true;
  select.disabled = part.disabled === true;
  select.addEventListener("change", () => view.press(message.id, part.custom_id, [select.value]));
  return select;
}

function actions(message, view) {
  const act = (label, run) => {
    const button = make("button", "quiet", label);
    button.type = "button";
    button.addEventListener("click", () => run(button));
    return button;
  };
  const bar = make("div", "actions");
  if (view.mayReply(message)) bar.append(act("Reply", () => view.reply(message.id)));
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", `Message of ${message.author_name}`);
  if (view.hasPath(message)) {
    const path = act("Path", () => view.path(message));
    path.classList.add("path-of");
    path.title = "The path of the answer, and the time of each stop";
    bar.append(path);
  }
  const question = view.question(message);
  if (question) bar.append(act("Try again", () => view.askAgain(question)));
  if (view.mayReply(message)) bar.append(act("React", () => picker(message, view, bar)));
  if (view.mayThread(message)) bar.append(act("Thread", () => view.thread(message.id)));
  if (message.author === view.me) bar.append(act("Edit", () => view.edit(message.id)));
  if (message.only_for) bar.append(act("Dismiss", () => view.remove(message.id)));
  else if (view.mayDelete(message)) bar.append(act("Delete", (button) => sure(button, () => view.remove(message.id))));
  return bar;
}

/** Asks for confirmation in the button itself. */
function sure(button, run) {
  if (button.dataset.sure) {
    run();
    return;
  }
  button.dataset.sure = "yes";
  button.textContent = "Really?";
  button.classList.add("danger");
  setTimeout(() => {
    delete button.dataset.sure;
    button.textContent = "Delete";
    button.classList.remove("danger");
  }, SURE_MS);
}
