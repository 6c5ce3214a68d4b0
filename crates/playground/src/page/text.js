// Converts message markup to elements, without ever parsing HTML.

import { paint } from "./colours.js";
import { make } from "/dashboard/dom.js";

const MAX_DEPTH = 6;
/** A row of a table. */
const ROW = /^\s*\|.*\|\s*$/;
/** Interval of updating relative times such as "in 5 seconds". */
const TICK_MS = 1000;
/** Maximum delivery time of a message: a time that passed within it was in the future when written. */
const UNDERWAY_MS = 5000;

/**
 * Draws a message. `names` resolves ids: `member(id)`, `role(id)` and `channel(id)` return `{name, self, color}` or
 * nothing. `saidAt` is its time in milliseconds since 1970, if known.
 */
export function draw(text, names) {
  const out = document.createDocumentFragment();
  const fence = /```(?:([\w+#.-]*)\n)?([\s\S]*?)(?:```|$)/g;
  let at = 0;
  for (const match of text.matchAll(fence)) {
    if (match[2].trim() === "" && match[0].length < 7) continue;
    blocks(out, text.slice(at, match.index), names);
    out.append(code(match[1] || "", match[2].replace(/\n$/, "")));
    at = match.index + match[0].length;
  }
  blocks(out, text.slice(at), names);
  return out;
}

/** Returns the text on one line and without markup, for quotes and announcements. */
export function plain(text, names) {
  return text
    .replace(/```(?:[\w+#.-]*\n)?([\s\S]*?)(?:```|$)/g, " $1 ")
    .replace(/<@!?(\d+)>/g, (all, id) => "@" + (names.member(id)?.name ?? "someone"))
    .replace(/<@&(\d+)>/g, (all, id) => "@" + (names.role(id)?.name ?? "role"))
    .replace(/<#(\d+)>/g, (all, id) => "#" + (names.channel(id)?.name ?? "channel"))
    .replace(/<t:(-?\d+)(?::\w)?>/g, (all, seconds) => moment(Number(seconds)).textContent)
    .replace(/<(https?:\/\/[^\s>]+)>/g, "$1")
    .replace(/^\s*(?:-#|#{1,3}|>|[-*]) (?=\S)/gm, "")
    .replace(/(\*\*|__|~~|\|\||`)/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

function code(language, text) {
  const copy = make("button", "quiet copy", "copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "copied";
    } catch {
      copy.textContent = "not allowed";
    }
    setTimeout(() => (copy.textContent = "copy"), 1500);
  });
  const words = make("code", "", text);
  paint(words, language);
  const body = make("pre", "", words);
  body.tabIndex = 0;
  return make("figure", "code", make("figcaption", "", make("span", "", language || "code"), copy), body);
}

/** Splits text into blocks: quotes, lists, headings, tables and paragraphs. */
function blocks(out, text, names) {
  const lines = text.replace(/^\n+|\n+$/g, "").split("\n");
  if (lines.length === 1 && lines[0] === "") return;
  let at = 0;
  const take = (pattern, ends = () => false) => {
    const taken = [];
    for (; at < lines.length && !ends(); at += 1) {
      const match = lines[at].match(pattern);
      if (!match) break;
      taken.push(match);
    }
    return taken;
  };
  while (at < lines.length) {
    const line = lines[at];
    if (/^> /.test(line)) {
      const quoted = take(/^> ?(.*)$/).map((match) => match[1]);
      out.append(make("blockquote", "", paragraph(quoted, names)));
    } else if (/^\s*[-*] \S/.test(line)) {
      out.append(list("ul", take(/^\s*[-*] (.*)$/), names));
    } else if (/^\s*\d{1,3}[.)] \S/.test(line)) {
      const first = parseInt(line, 10);
      const items = list("ol", take(/^\s*\d{1,3}[.)] (.*)$/), names);
      items.start = first;
      out.append(items);
    } else if (/^#{1,3} \S/.test(line)) {
      const [, marks, title] = line.match(/^(#{1,3}) (.*)$/);
      const heading = make("p", `heading heading-${marks.length}`);
      inline(heading, title, names, 0);
      out.append(heading);
      at += 1;
    } else if (/^-# \S/.test(line)) {
      const small = make("p", "fine");
      inline(small, line.slice(3), names, 0);
      out.append(small);
      at += 1;
    } else if (line.trim() === "") {
      at += 1;
    } else if (isTable(lines, at)) {
      const head = cells(lines[at]);
      at += 2;
      out.append(table(head, take(ROW).map(([row]) => cells(row)), names));
    } else {
      const own = take(/^(?!> |\s*[-*] \S|\s*\d{1,3}[.)] \S|#{1,3} \S|-# \S)(.*\S.*)$/, () => isTable(lines, at)).map((match) => match[1]);
      out.append(paragraph(own, names));
    }
  }
}

/** True if a table begins at this line: a row of cells above a row of dashes with as many cells. */
function isTable(lines, at) {
  const rule = lines[at + 1] ?? "";
  return ROW.test(lines[at]) && /^[\s|:-]+$/.test(rule) && ROW.test(rule) && cells(rule).every((cell) => /^:?-+:?$/.test(cell)) && cells(rule).length === cells(lines[at]).length;
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
}

/** A table; its rows have as many cells as its head. */
function table(head, rows, names) {
  const row = (tag, texts) => make("tr", "", ...head.map((_, n) => {
    const cell = make(tag);
    inline(cell, texts[n] ?? "", names, 0);
    return cell;
  }));
  const box = make("div", "table", make("table", "", make("thead", "", row("th", head)), make("tbody", "", ...rows.map((texts) => row("td", texts)))));
  box.tabIndex = 0;
  return box;
}

function list(tag, items, names) {
  const element = make(tag);
  for (const [, text] of items) {
    const item = make("li");
    inline(item, text, names, 0);
    element.append(item);
  }
  return element;
}

function paragraph(lines, names) {
  const element = make("p");
  lines.forEach((line, n) => {
    if (n > 0) element.append(make("br"));
    inline(element, line, names, 0);
  });
  return element;
}

const INLINE = new RegExp(
  [
    /(?<code>``?[^`\n]+``?)/,
    /<@!?(?<user>\d{1,20})>/,
    /<@&(?<role>\d{1,20})>/,
    /<#(?<channel>\d{1,20})>/,
    /<t:(?<time>-?\d{1,12})(?::(?<style>[tTdDfFR]))?>/,
    /<a?:(?<emoji>\w{1,32}):\d{1,20}>/,
    /\[(?<label>[^\]\n]{1,200})\]\(<?(?<target>https?:\/\/[^\s)>]+)>?\)/,
    /<(?<angled>https?:\/\/[^\s>]+)>/,
    /(?<url>https?:\/\/[^\s<]+[^\s<.,:;!?"')\]*_~])/,
    /\*\*(?<bold>[^\n]+?)\*\*(?!\*)/,
    /__(?<under>[^\n]+?)__/,
    /~~(?<strike>[^\n]+?)~~/,
    /\|\|(?<hidden>[^\n]+?)\|\|/,
    /\*(?<star>[^\s*](?:[^\n*]*[^\s*])?)\*/,
    /(?<![\w])_(?<line>[^\s_](?:[^\n_]*[^\s_])?)_(?![\w])/,
    /(?<all>@(?:everyone|here))\b/,
    /\\(?<escaped>[*_~`|\\<>#@-])/,
  ]
    .map((part) => part.source)
    .join("|"),
  "g",
);

function inline(out, text, names, depth) {
  if (depth > MAX_DEPTH) {
    out.append(text);
    return;
  }
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    out.append(text.slice(at, match.index));
    out.append(piece(match, names, depth));
    at = match.index + match[0].length;
  }
  out.append(text.slice(at));
}

function piece(match, names, depth) {
  const found = match.groups;
  const nested = (tag, inner, classes = "") => {
    const element = make(tag, classes);
    inline(element, inner, names, depth + 1);
    return element;
  };
  if (found.code) return make("code", "", found.code.replace(/^``?|``?$/g, ""));
  if (found.user) return mention("@", names.member(found.user), match[0]);
  if (found.role) return mention("@", names.role(found.role), match[0]);
  if (found.channel) return mention("#", names.channel(found.channel), match[0]);
  if (found.time) return moment(Number(found.time), found.style, names.saidAt);
  if (found.emoji) return document.createTextNode(`:${found.emoji}:`);
  if (found.target) return link(found.target, found.label);
  if (found.angled) return link(found.angled, found.angled);
  if (found.url) return link(found.url, found.url);
  if (found.bold) return nested("strong", found.bold);
  if (found.under) return nested("u", found.under);
  if (found.strike) return nested("s", found.strike);
  if (found.hidden) return spoiler(nested("span", found.hidden, "spoiler"));
  if (found.star || found.line) return nested("em", found.star || found.line);
  if (found.all) return make("span", "mention", found.all);
  return document.createTextNode(found.escaped);
}

function mention(mark, known, raw) {
  if (!known) return document.createTextNode(raw);
  const element = make("span", known.self ? "mention self" : "mention", mark + known.name);
  if (known.color) element.style.setProperty("--role", known.color);
  return element;
}

function spoiler(element) {
  element.tabIndex = 0;
  element.setAttribute("role", "button");
  element.setAttribute("aria-label", "hidden text, press to show");
  const show = () => {
    element.classList.add("shown");
    element.removeAttribute("aria-label");
  };
  element.addEventListener("click", show);
  element.addEventListener("keydown", (event) => event.key === "Enter" && show());
  return element;
}

/** A link that can only lead to a web address. */
export function link(target, label) {
  let address;
  try {
    address = new URL(target);
  } catch {
    return document.createTextNode(label);
  }
  if (address.protocol !== "https:" && address.protocol !== "http:") return document.createTextNode(label);
  const element = make("a", "", label);
  element.href = address.href;
  element.target = "_blank";
  element.rel = "noopener noreferrer";
  element.title = address.href;
  return element;
}

function moment(seconds, style = "f", saidAt = Infinity) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return document.createTextNode("an unknown time");
  const styles = {
    t: { timeStyle: "short" }, T: { timeStyle: "medium" }, d: { dateStyle: "short" }, D: { dateStyle: "long" },
    f: { dateStyle: "medium", timeStyle: "short" }, F: { dateStyle: "full", timeStyle: "short" },
  };
  const awaited = date.getTime() > saidAt - UNDERWAY_MS;
  const element = make("time", "moment", style === "R" ? relative(date, awaited) : date.toLocaleString([], styles[style]));
  element.dateTime = date.toISOString();
  element.title = date.toLocaleString();
  if (style === "R") element.dataset.relative = awaited ? "awaited" : "told";
  return element;
}

/** Updates relative times such as "in 5 seconds" while the page is open. */
export function tickTimes() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time[data-relative]")) {
      const words = relative(new Date(element.dateTime), element.dataset.relative === "awaited");
      if (element.textContent !== words) element.textContent = words;
    }
  }, TICK_MS);
}

/**
 * Formats a time relative to now. A future time stays "now" once it has passed, so that "I can answer again" remains
 * true.
 */
function relative(date, awaited) {
  const seconds = Math[awaited ? "ceil" : "round"]((date.getTime() - Date.now()) / 1000);
  const words = new Intl.RelativeTimeFormat([], { numeric: "auto" });
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  if (awaited && seconds <= 0) return words.format(0, "second");
  const [unit, length] = units.find(([, length]) => Math.abs(seconds) >= length) ?? units[3];
  return words.format(Math.round(seconds / length), unit);
}
