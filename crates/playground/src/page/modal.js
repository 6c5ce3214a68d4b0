// A dialogue of the workspace, drawn from Slack's blocks.

import { ask } from "./asking.js";
import { at } from "./world.js";
import { make } from "/dashboard/dom.js";

const ROUTES = "/playground/workspace";

/** The text of the last drawing, which is not repeated: a repetition would lose what is typed. */
let drawn = "";

/** Draws the dialogue that is open for a member, or closes it. */
export function drawModal(dialogue, member, name, act, content) {
  const box = at("modal");
  const key = JSON.stringify([dialogue, member]);
  if (key === drawn) return;
  const kept = dialogue?.errors ? Object.fromEntries(new FormData(at("modal-form"))) : {};
  drawn = key;
  if (!dialogue) {
    if (box.open) box.close();
    return;
  }
  const { view, errors } = dialogue;
  at("modal-title").textContent = view.title?.text ?? name;
  at("modal-fields").replaceChildren(...view.blocks.map((block) => (block.type === "input" ? field(block, errors?.[block.block_id], kept[block.block_id]) : make("p", "", content(block.text?.text ?? "")))));
  at("modal-send").hidden = !view.submit;
  at("modal-send").textContent = view.submit?.text ?? "";
  at("modal-close").textContent = view.close?.text ?? "Close";
  const send = () => ask("POST", `${ROUTES}/dialogue`, { member, values: Object.fromEntries(new FormData(at("modal-form"))) });
  at("modal-form").onsubmit = (event) => {
    event.preventDefault();
    act(send());
  };
  const close = () => act(ask("DELETE", `${ROUTES}/dialogue?member=${member}`));
  at("modal-close").onclick = close;
  box.oncancel = (event) => {
    event.preventDefault();
    close();
  };
  if (!box.open) box.showModal();
}

function field(block, problem, kept) {
  const { element } = block;
  const input = element.type === "static_select" ? select(element) : typed(element);
  input.name = block.block_id;
  input.id = `field-${block.block_id}`;
  input.required = !block.optional;
  if (kept !== undefined) input.value = kept;
  const label = make("label", "", block.label.text);
  label.htmlFor = input.id;
  const about = [problem ? make("span", "problem", problem) : "", block.hint ? make("span", "note", block.hint.text) : ""];
  if (problem) input.setAttribute("aria-invalid", "true");
  return make("div", "modal-field", label, input, ...about);
}

function select(element) {
  const option = ({ text, value }) => Object.assign(make("option", "", text.text), { value });
  const made = make("select", "", ...element.options.map(option));
  if (element.initial_option) made.value = element.initial_option.value;
  else made.prepend(Object.assign(make("option", "", ""), { value: "", selected: true }));
  return made;
}

function typed(element) {
  const made = make(element.multiline ? "textarea" : "input");
  if (element.type === "number_input") {
    Object.assign(made, { type: "number", step: element.is_decimal_allowed ? "any" : "1", min: element.min_value ?? "", max: element.max_value ?? "" });
  } else if (element.max_length) made.maxLength = element.max_length;
  made.value = element.initial_value ?? "";
  return made;
}
