// The usage of the last days, by member and by tool, and the arms of experiments. Read when opened, then rarely.

import { make, short } from "./dom.js";

const SELDOM_MS = 60_000;
/** Number of members and tools shown per day. */
const MOST = 8;

/** Builds the part; `read(path)` queries the program, `nameOf(id)` returns a member's name. */
export function useOf(read, nameOf) {
  const list = make("ul", "spent by-day");
  const box = make("details", "use", make("summary", "", "By day, member, tool and experiment"), list);
  box.title = "the usage ledger and the audit log of tools for the last seven days, and the figures of experiments";
  let last = -Infinity;
  const look = async () => {
    if (!box.open || performance.now() - last < SELDOM_MS) return;
    last = performance.now();
    try {
      const [{ days }, { arms }] = await Promise.all([read("/api/v1/usage/days"), read("/api/v1/experiments")]);
      list.replaceChildren(...days.flatMap((day) => rows(day, nameOf)), ...armRows(arms));
    } catch {
      last = -Infinity;
    }
  };
  box.addEventListener("toggle", look);
  return { element: box, look };
}

function rows({ day, all, members, tools }, nameOf) {
  if (all.tokens === 0 && tools.count === 0) return [];
  const head = row(day, `${all.messages} ${all.messages === 1 ? "message" : "messages"}`, `${short(all.tokens)} tokens`);
  head.classList.add("day");
  const who = ({ member }) => nameOf(member.slice(member.indexOf(":") + 1)) ?? member;
  const ofMembers = members.most.slice(0, MOST).map((one) => row(who(one), `${one.messages} ${one.messages === 1 ? "message" : "messages"}`, `${short(one.tokens)} tokens`));
  const ofTools = tools.most.slice(0, MOST).map((one) => row(one.tool, `${one.calls} ${one.calls === 1 ? "call" : "calls"}${one.failed ? `, ${one.failed} failed` : ""}`, `${one.members} ${one.members === 1 ? "member" : "members"}`));
  return [head, ...ofMembers, ...more(members, "members"), ...ofTools, ...more(tools, "tools")];
}

function armRows(arms) {
  if (arms.length === 0) return [];
  const head = row("Experiments", "by arm", "");
  head.classList.add("day");
  return [head, ...arms.map(armRow)];
}

function armRow(arm) {
  const seconds = (ms) => (ms === null ? "-" : `${(ms / 1000).toFixed(1)} s`);
  const bad = [[arm.apologies, "apologised"], [arm.repaired, "repaired"]].filter(([count]) => count > 0).map(([count, what]) => `, ${count} ${what}`);
  const votes = arm.up + arm.down > 0 ? `; ${arm.up} up, ${arm.down} down` : "";
  const figures = `${arm.answers} answered${bad.join("")}; ${seconds(arm.p50_ms)}, 95 % ${seconds(arm.p95_ms)}${votes}`;
  const cost = arm.micros > 0 ? `, $${(arm.micros / 1e6).toFixed(4)}` : "";
  return row(`${arm.experiment}: ${arm.arm}`, figures, `${short(arm.tokens_in + arm.tokens_out)} tokens${cost}`);
}

function more({ count }, what) {
  return count > MOST ? [row(`and ${count - MOST} more ${what}`, "", "")] : [];
}

function row(name, figure, price) {
  return make("li", "", make("span", "name", name), make("span", "figure", figure), make("span", "price", price));
}
