// A dialog with the form that a pressed button opened: Discord's fields as inputs with labels.

import { make } from "/dashboard/dom.js";

const dialog = document.getElementById("form");
/** Discord's number of a text field. */
const TEXT = 4;

/** Opens the dialog. `send(values)` passes on the values by the names of their fields, and may fail. */
export function openForm(form, send) {
  const problem = make("p", "problem");
  problem.hidden = true;
  const inputs = form.components.map(({ component }) => inputOf(component, true));
  const rows = form.components.map((part, n) => row(part, inputs[n]));
  const [cancel, enter] = [make("button", "press", "Cancel"), make("button", "press style-1", "Send")];
  cancel.type = "button";
  cancel.addEventListener("click", () => dialog.close());
  const fields = make("form", "", ...rows, problem, make("p", "ends", cancel, enter));
  fields.autocomplete = "off";
  fields.addEventListener("submit", async (event) => {
    event.preventDefault();
    enter.disabled = true;
    try {
      // An empty text is an answer; a menu without a choice is none.
      const answered = inputs.filter((one) => one.tagName !== "SELECT" || one.value !== "");
      const filled = answered.map((one) => [one.name, one.value]);
      await send(Object.fromEntries(filled));
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    enter.disabled = false;
  });
  const title = make("h2", "", form.title);
  title.id = "form-title";
  dialog.replaceChildren(title, fields);
  dialog.showModal();
  inputs[0]?.focus();
}

/** Returns the label of a field, with its description. */
export function row(part, field) {
  const label = make("label", "setup-field", part.label, field);
  if (part.description) label.append(make("span", "note", part.description));
  return label;
}

/** Returns the input of a field. `blank` adds an option without a value to a menu. */
export function inputOf(part, blank) {
  const field = part.type === TEXT ? text(part) : menu(part, blank);
  Object.assign(field, { name: part.custom_id, required: Boolean(part.required) });
  return field;
}

function text(part) {
  const field = make(part.style === 2 ? "textarea" : "input", "join-name");
  field.value = part.value ?? "";
  if (part.max_length) field.maxLength = part.max_length;
  if (part.min_length) field.minLength = part.min_length;
  return field;
}

function menu(part, blank) {
  const option = ({ label, value, default: chosen }) => {
    const one = make("option", "", label);
    Object.assign(one, { value, selected: Boolean(chosen) });
    return one;
  };
  const none = blank ? [option({ label: "", value: "" })] : [];
  return make("select", "join-name", ...none, ...part.options.map(option));
}
