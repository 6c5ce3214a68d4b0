// The search in the current place: shows only messages whose author or text has the words.

import { at, messagesHere, world } from "./world.js";

/** Wires the field. `ended()` is called when the search ends. */
export function watchSearch(ended) {
  const field = at("search");
  let before = "";
  field.addEventListener("input", () => {
    showFound();
    if (before !== "" && field.value === "") ended();
    before = field.value;
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || field.value === "") return;
    event.stopPropagation();
    event.preventDefault();
    endSearch();
    ended();
  });
}

/** Ends the search: the place changes. */
export function endSearch() {
  at("search").value = "";
  showFound();
}

/** Applies the search to the messages that are shown, also after changes. */
export function showFound() {
  const wanted = at("search").value.trim().toLowerCase();
  const list = at("messages");
  list.classList.toggle("searched", wanted !== "");
  let found = 0;
  for (const item of list.querySelectorAll("li.message")) {
    const message = messagesHere().find((one) => one.id === item.dataset.id);
    const author = world.members.get(message?.author)?.name ?? message?.author_name ?? "";
    const fits = wanted === "" || [author, item.querySelector(".column")?.innerText ?? "", ...(message?.attachments ?? []).map((file) => file.filename)].some((text) => text.toLowerCase().includes(wanted));
    item.classList.toggle("unfound", !fits);
    found += fits ? 1 : 0;
  }
  at("found").textContent = wanted === "" ? "" : `${found} ${found === 1 ? "message" : "messages"}`;
}
