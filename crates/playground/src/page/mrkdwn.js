// Converts Slack's markup to elements, without ever parsing HTML.
// Source: docs.slack.dev/messaging/formatting-message-text

import { make } from "/dashboard/dom.js";

/** The deepest nesting of marks. */
const MAX_DEPTH = 5;
const MARKS = { "*": "strong", _: "em", "~": "s" };
/** A mark stands at the edge of a word, and encloses no blank at its ends. */
const MARKED = /(^|[\s([{"'.,;:!?-])([*_~])(\S|\S[^\n]{0,300}?\S)\2(?=$|[\s)\]}"'.,;:!?-])/;
const TOKEN = /```\n?([\s\S]*?)```|`([^`\n]+)`|<([^<>\n]+)>/;

/** Returns the text that escapes stand for. */
function unescaped(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

/** Draws a text. `name(id)` returns the name of a member. */
export function draw(text, name) {
  const out = document.createDocumentFragment();
  let quoted = [];
  const flush = () => {
    if (quoted.length > 0) {
      const quote = make("blockquote");
      inline(quote, quoted.join("\n"), name, 0);
      out.append(quote);
    }
    quoted = [];
  };
  for (const part of text.split(/(```[\s\S]*?```)/)) {
    if (part.startsWith("```") && part.length >= 6) {
      flush();
      const body = make("pre", "", make("code", "", unescaped(part.slice(3, -3).replace(/^\n|\n$/g, ""))));
      body.tabIndex = 0;
      out.append(body);
      continue;
    }
    const lines = part.split("\n");
    const plain = [];
    const words = () => {
      if (plain.length > 0) inline(out, plain.join("\n"), name, 0);
      plain.length = 0;
    };
    for (const line of lines) {
      const quote = line.match(/^(?:&gt;|>) ?(.*)$/);
      if (quote) {
        words();
        quoted.push(quote[1]);
      } else {
        flush();
        plain.push(line);
      }
    }
    flush();
    words();
  }
  return out;
}

function inline(box, text, name, depth) {
  const token = text.match(TOKEN);
  if (token) {
    marked(box, text.slice(0, token.index), name, depth);
    box.append(element(token, name));
    inline(box, text.slice(token.index + token[0].length), name, depth);
    return;
  }
  marked(box, text, name, depth);
}

function marked(box, text, name, depth) {
  const match = depth < MAX_DEPTH ? text.match(MARKED) : null;
  if (!match) {
    box.append(unescaped(text));
    return;
  }
  box.append(unescaped(text.slice(0, match.index) + match[1]));
  const part = make(MARKS[match[2]]);
  marked(part, match[3], name, depth + 1);
  box.append(part);
  marked(box, text.slice(match.index + match[0].length), name, depth);
}

function element([all, block, code, told], name) {
  if (block !== undefined) return make("pre", "", unescaped(block));
  if (code !== undefined) return make("code", "", unescaped(code));
  const [target, label] = told.split("|", 2);
  if (target.startsWith("@")) return make("span", "name", "@" + name(target.slice(1)));
  if (/^(https?:\/\/|mailto:)/.test(target)) {
    const link = make("a", "", unescaped(label ?? target));
    link.href = unescaped(target);
    link.rel = "noopener noreferrer";
    link.target = "_blank";
    return link;
  }
  return unescaped(all);
}
