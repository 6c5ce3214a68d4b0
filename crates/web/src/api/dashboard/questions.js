// The approvals, questions and tasks of tools that wait for people. Nothing can be decided here: only the people named
// can, where they were asked.

import { ago, make, set } from "./dom.js";

const KINDS = { approval: "approval of", form: "form of", link: "link of", task: "task of" };

/** Builds the list; `read(path)` queries the program, `nameOf(id)` returns the name for an id. */
export function questionsOf(read, nameOf) {
  const list = make("ul", "parts questions");
  const sum = make("p", "sum");
  const heading = make("h3", "", "Open questions");
  heading.title = "approvals, forms, links and tasks of tools that wait for people; only the people named can decide, where they were asked";
  const element = make("section", "part", make("header", "part-head", heading, sum), list);
  element.hidden = true;
  const look = async () => {
    const told = await read("/api/v1/questions").catch(() => null);
    if (!told) return;
    element.hidden = told.count === 0;
    set(sum, told.count > told.first.length ? `${told.first.length} of ${told.count}` : String(told.count));
    list.replaceChildren(...told.first.map((question) => row(question, nameOf)));
  };
  return { element, look };
}

function row({ kind, tool, server, place, member, roles, expires_at }, nameOf) {
  const named = (id) => nameOf(id.slice(id.indexOf(":") + 1)) ?? id;
  const left = Math.max(0, Date.parse(expires_at) - Date.now());
  const decider = roles.length ? `a holder of ${roles.length === 1 ? "role" : "roles"} ${roles.join(", ")}` : named(member);
  const line = make("li", "", make("span", "name", `${KINDS[kind] ?? kind} ${tool}`),
    make("span", "figure", kind === "task" ? `for ${named(member)}` : `waits for ${decider}`), make("span", "since", `${ago(left)} left`));
  line.title = `asked by ${named(member)} in ${named(place)}${server ? `, by the server ${server}` : ""}; open until ${expires_at}`;
  return line;
}
