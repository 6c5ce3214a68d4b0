// Syntax highlighting by ranges that the browser paints (CSS highlights), so that the text remains one node.

const WORDS = new Set(("abstract and as assert async await bool break case catch class const continue crate def default defer del do done elif else end enum "
  + "except export extends extern false False fi final finally fn for foreach from func function go if impl implements import in interface is lambda let local "
  + "loop match mod module mut namespace new nil None not null or package pass private protected pub public raise ref return self Self static struct super switch "
  + "then this throw throws trait true True try type typeof undefined unsafe use using var void where while with").split(" "));
const SQL = new Set(("ALTER AND AS ASC BETWEEN BY CASE CREATE DELETE DESC DISTINCT DROP ELSE END EXISTS FROM GROUP HAVING IN INNER INSERT INTO IS JOIN LEFT LIKE "
  + "LIMIT NOT NULL ON OR ORDER OUTER SELECT SET TABLE THEN UNION UPDATE VALUES WHEN WHERE").split(" "));
const COMMENTS = { slashes: "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)", hash: "#[^\\n]*", dashes: "--[^\\n]*" };
const FAMILIES = {
  slashes: "rust rs c h cpp c++ cc cs csharp java javascript js jsx typescript ts tsx go kotlin kt swift php css scss scala dart zig json jsonc",
  hash: "python py sh bash zsh shell console ruby rb yaml yml toml ini dockerfile make makefile r perl nix elixir",
  dashes: "lua haskell hs elm sql postgres mysql sqlite",
};
const FAMILY = new Map(Object.entries(FAMILIES).flatMap(([family, languages]) => languages.split(" ").map((language) => [language, family])));
/** In these languages a single quote holds one character, or begins something else. */
const CHARACTERS = new Set("rust rs c h cpp c++ cc cs csharp java kotlin kt scala go zig haskell hs elm".split(" "));
/** Maximum length of coloured code, in characters. */
const LONGEST = 20_000;

const kinds = globalThis.CSS?.highlights && new Map(["comment", "string", "number", "word"].map((kind) => [kind, new Highlight()]));
kinds?.forEach((paint, kind) => CSS.highlights.set(`code-${kind}`, paint));
/** The ranges of each coloured element. */
const painted = new Map();
let sweeping = 0;

/** Colours the text of an element for its lifetime. */
export function paint(element, language) {
  const [name, text] = [language.toLowerCase(), element.firstChild];
  const family = FAMILY.get(name);
  if (!kinds || !family || !text || text.length > LONGEST) return;
  const quotes = CHARACTERS.has(name) ? "'(?:[^'\\\\\\n]|\\\\[^\\n]{1,9})'" : "'(?:[^'\\\\\\n]|\\\\.)*'";
  const pattern = new RegExp(`(?<comment>${COMMENTS[family]})|(?<string>"(?:[^"\\\\\\n]|\\\\.)*"|\`(?:[^\`\\\\]|\\\\.)*\`|${quotes})|(?<number>\\b\\d[\\w.]*)|(?<word>[A-Za-z_]\\w*)`, "g");
  const isWord = (word) => name === "sql" || name.endsWith("sql") || name === "sqlite" ? SQL.has(word.toUpperCase()) : WORDS.has(word);
  const ranges = [];
  for (const match of text.data.matchAll(pattern)) {
    const kind = Object.keys(match.groups).find((kind) => match.groups[kind] !== undefined);
    if (kind === "word" && !isWord(match[0])) continue;
    const range = new StaticRange({ startContainer: text, startOffset: match.index, endContainer: text, endOffset: match.index + match[0].length });
    kinds.get(kind).add(range);
    ranges.push([kind, range]);
  }
  painted.set(element, ranges);
  sweepSoon();
}

/** Removes the ranges of elements that are no longer shown, after the current drawing. */
function sweepSoon() {
  clearTimeout(sweeping);
  sweeping = setTimeout(() => {
    for (const [element, ranges] of painted) {
      if (element.isConnected) continue;
      ranges.forEach(([kind, range]) => kinds.get(kind).delete(range));
      painted.delete(element);
    }
  }, 0);
}
