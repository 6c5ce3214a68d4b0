// The processes that share the store, if there are several: which one is active, and which ones stand by.

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
    list.replaceChildren(...told.processes.map(row));
  };
  return { element, look };
}

function row({ name, state, version, since, address, reached_at }) {
  const line = make("li", state, make("span", "name", name), make("span", "figure", version ? `${state}, version ${version}` : state),
    make("span", "since", since ? ago(Math.max(0, Date.now() - Date.parse(since))) : ""));
  line.title = !address ? "it reports in a form of another version"
    : `listens at ${address}${reached_at ? `; other processes reach it at ${reached_at}` : "; takes no requests from other processes"}`;
  return line;
}
