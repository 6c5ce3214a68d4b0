// The order of the tree: as supervised, or a flat list by a figure; and the search in it.

import { make } from "./dom.js";

/** Each order: its key, its label, the figure that it sorts by, largest first. */
const ORDERS = [
  ["", "as supervised"], ["mailbox", "by mailbox", (node) => node.mailbox], ["restarts", "by restarts", (node) => node.restarts],
  ["handled", "by messages handled", (node) => node.handled], ["uptime", "by last start", (node) => -node.uptime_s], ["name", "by name"],
];

/** Creates the controls. `changed()` is called when the order or the search changes. */
export function orderOf(changed) {
  const find = make("input", "find");
  Object.assign(find, { type: "search", placeholder: "find an actor", autocomplete: "off", spellcheck: false, maxLength: 64, ariaLabel: "Show only actors with this name", title: "A part of the actor's name or path, or a state such as restarting" });
  const by = make("select", "menu order", ...ORDERS.map(([key, label]) => new Option(label, key)));
  by.setAttribute("aria-label", "Order of the actors");
  find.addEventListener("input", changed);
  by.addEventListener("change", changed);
  return {
    element: make("div", "order-row", find, by),
    /** The nodes to list, without sums; null for the tree as it is. `readable(node)` returns the shown name. */
    list: (root, readable) => {
      const wanted = find.value.trim().toLowerCase();
      if (!wanted && !by.value) return null;
      const fits = (node) => [node.path, readable(node), node.state].some((text) => text.toLowerCase().includes(wanted));
      const all = [];
      const walk = (node) => {
        if (node.many === undefined && fits(node)) all.push(node);
        node.children.forEach(walk);
      };
      walk(root);
      const figure = ORDERS.find(([key]) => key === by.value)?.[2];
      if (figure) all.sort((a, b) => figure(b) - figure(a));
      else if (by.value === "name") all.sort((a, b) => readable(a).localeCompare(readable(b)));
      return all;
    },
  };
}
