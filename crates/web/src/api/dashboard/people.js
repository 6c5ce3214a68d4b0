// The last turns by member or by channel: how many, how they ended, their tokens, and the slowest.

import { ago, duration, make, rove, set, short } from "./dom.js";

const VIEWS = [["actors", "Actors"], ["member", "Members"], ["place", "Channels"]];
const ANSWERED = new Set(["replied", "hinted"]);

/**
 * Creates the switch between the tree and the views, and the list of a view. `read(path)` queries the program, `nameOf(id)`
 * returns a name, `chosen(id)` is called for a clicked row, `changed(view)` when another view is chosen.
 */
export function peopleOf({ read, nameOf, chosen, changed }) {
  const state = { view: "actors" };
  const list = make("ul", "people");
  const none = make("p", "none", "No turn yet.");
  const element = make("div", "", list, none);
  element.hidden = true;
  const buttons = VIEWS.map(([key, label]) => {
    const button = make("button", "quiet view", label);
    button.type = "button";
    button.setAttribute("aria-pressed", String(key === state.view));
    button.addEventListener("click", () => {
      state.view = key;
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      element.hidden = key === "actors";
      changed(key);
      look();
    });
    return button;
  });
  const look = async () => {
    if (state.view === "actors") return;
    const told = await read("/api/v1/turns?limit=200").catch(() => null);
    if (!told || state.view === "actors") return;
    const rows = grouped(told.turns, state.view).map((one) => row(one, { nameOf, chosen, view: state.view }));
    list.replaceChildren(...rows);
    set(none, rows.length ? "" : "No turn yet.");
  };
  const choice = make("div", "views", ...buttons);
  rove(choice, "button");
  rove(list, "button");
  choice.setAttribute("role", "group");
  choice.setAttribute("aria-label", "Show the bot by");
  return { element, choice, look };
}

/** The turns of each member or place, the most recent first. */
function grouped(turns, field) {
  const all = new Map();
  for (const turn of turns) {
    if (!turn[field]) continue;
    const one = all.get(turn[field]) ?? { id: turn[field], turns: 0, open: 0, answered: 0, other: 0, tokens: 0, slowest: 0, age: Infinity };
    one.turns += 1;
    if (turn.ended_ms === null) one.open += 1;
    else if (ANSWERED.has(turn.outcome)) one.answered += 1;
    else one.other += 1;
    one.tokens += turn.counted?.tokens ?? 0;
    one.slowest = Math.max(one.slowest, turn.ended_ms ?? turn.age_ms);
    one.age = Math.min(one.age, turn.age_ms);
    all.set(turn[field], one);
  }
  return [...all.values()].sort((a, b) => a.age - b.age);
}

function row({ id, turns, open, answered, other, tokens, slowest, age }, { nameOf, chosen, view }) {
  const bare = id.slice(id.indexOf(":") + 1);
  const name = make("button", "name", nameOf(bare) ?? id);
  Object.assign(name, { type: "button", title: `Show the turns of this ${view === "place" ? "channel" : "member"}` });
  name.addEventListener("click", () => chosen(bare));
  const parts = [`${answered} answered`, open && `${open} open`, other && `${other} otherwise`, `${short(tokens)} tokens`, `slowest ${duration(slowest)}`];
  const line = make("li", "", name, make("span", "price", `${turns} ${turns === 1 ? "turn" : "turns"}`), make("span", "figure", parts.filter(Boolean).join(", ")), make("span", "figure since", `${ago(age)} ago`));
  line.title = "its turns among the last 200; otherwise: apologised, refused, cancelled or failed";
  return line;
}
