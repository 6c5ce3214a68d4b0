// The processes that share the store, if there are several: which ones are active, their ranges of a
// divided bot, and which ones stand by. Ranges without a process come first.

import { ago, make, set } from "./dom.js";

/** Builds the list; `read(path)` queries the program. */
export function processesOf(read) {
  const list = make("ul", "parts processes");
  const sum = make("p", "sum");
  const heading = make("h3", "", "Processes");
  heading.title = "the processes that share the store of this one: the active one answers, and one that stands by takes over when it ends";
  const element = make("section", "part", make("header", "part-head", heading, sum), list);
  element.hidden = true;
  const look = async () => {
    const told = await read("/api/v1/cluster").catch(() => null);
    if (!told) return;
    element.hidden = told.processes.length < 2;
    set(sum, String(told.processes.length));
    const held = (name) => told.ranges.filter(({ process }) => process === name);
    const free = told.ranges.filter(({ process }) => process === null);
    list.replaceChildren(...free.map(freeRow), ...told.processes.map((process) => row(process, held(process.name))));
  };
  return { element, look };
}

function freeRow({ range }) {
  const line = make("li", "gone", make("span", "name", `range ${range}`), make("span", "figure", "no process"), make("span", "since", ""));
  line.title = "its guilds get no answers: start one more process with the same settings";
  return line;
}

function row({ name, state, version, since, address, reached_at, lag_ms }, held) {
  const late = lag_ms >= 1000 ? `, lag ${Math.round(lag_ms / 1000)} s` : "";
  const does = (held.length ? `${state}, ${held.length > 1 ? "ranges" : "range"} ${held.map(({ range }) => range).join(" ")}` : state) + late;
  const line = make("li", state, make("span", "name", name), make("span", "figure", version ? `${does}, version ${version}` : does),
    make("span", "since", since ? ago(Math.max(0, Date.now() - Date.parse(since))) : ""));
  line.title = !address ? "it reports in a form of another version"
    : held.map(({ range, held_seconds, moves }) => `range ${range} for ${held_seconds} s, moves: ${moves}\n`).join("") + `listens at ${address}${reached_at ? `; other processes reach it at ${reached_at}` : "; takes no requests from other processes"}`;
  return line;
}
