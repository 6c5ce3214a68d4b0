// From the playground to a bot of one's own: tests a token or a model, and writes .env, as `staffai init` does.

import { ask } from "./asking.js";
import { inside } from "./inside.js";
import { at } from "./world.js";
import { link } from "./text.js";
import { make, rove } from "/dashboard/dom.js";

const SIGNS = { ok: "✓", note: "!", skipped: "–", wrong: "✕" };
/** The place of the link to Discord's developer portal. */
const PORTAL = Symbol("portal");
const PARTS = {
  discord: {
    title: "Connect my Discord",
    steps: [
      ["Create an application in the ", PORTAL, "."],
      ["Under Bot, switch on the Message Content Intent, and copy the token with Reset Token."],
      ["Paste the token here. It is tested, and written to .env on this machine."],
    ],
    fields: [{ variable: "DISCORD_BOT_TOKEN", label: "Bot token", secret: true, required: true }],
    done: "The token is in .env. Open the invite address above, then stop the playground and start: staffai run",
  },
  model: {
    title: "Use my model",
    steps: [["Any server with OpenAI's API works: LiteLLM, Ollama, LM Studio, vLLM, or a provider. The model is asked once before .env is written."]],
    fields: [
      { variable: "LITELLM_API_URL", label: "Address", required: true, example: true },
      { variable: "LITELLM_API_KEY", label: "Key", secret: true, note: "empty if the server needs none" },
      { variable: "LITELLM_MODEL", label: "Model", required: true, placeholder: "llama3.1" },
    ],
    done: "The model is in .env. The next start of the playground uses it, and so does: staffai run",
  },
};

/** Wires the buttons beside the members. */
export function watchSetup() {
  rove(at("setup-discord").parentElement, "button");
  for (const part of Object.keys(PARTS)) at(`setup-${part}`).addEventListener("click", () => openSetup(part));
}

/** Opens the dialog of a part. */
export async function openSetup(name) {
  const { title, steps, fields, done } = PARTS[name];
  const dialog = at("setup");
  const { set, portal, example } = await ask("GET", "/playground/setup").catch(() => ({ set: [], portal: "", example: "" }));
  const inputs = fields.map((field) => inputOf({ ...field, placeholder: field.example ? example : field.placeholder }, set.includes(field.variable)));
  const findings = make("ul", "findings");
  const result = make("p", "hint");
  result.setAttribute("role", "status");
  const [close, test] = [make("button", "press", "Close"), make("button", "press style-1", "Test and write .env")];
  close.type = "button";
  close.addEventListener("click", () => dialog.close());
  const form = make("form", "", ...inputs.map(({ row }) => row), findings, result, make("p", "ends", close, test));
  form.autocomplete = "off";
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    test.disabled = true;
    findings.replaceChildren();
    tell(result, "Testing…");
    try {
      const values = inputs.map(({ input }) => input.value.trim());
      const told = await ask("POST", "/playground/setup", { part: name, values }, { "X-Staffai-Chaos": inside.chaos.token() });
      findings.replaceChildren(...told.findings.map(findingLine));
      tell(result, told.written ? done : "Nothing was written. Correct the line marked ✕, and test again.", !told.written);
      // A secret does not stay on the page once it is stored.
      if (told.written) inputs.filter(({ input }) => input.type === "password").forEach(({ input }) => (input.value = ""));
    } catch (error) {
      tell(result, error.message, true);
    }
    test.disabled = false;
  });
  dialog.setAttribute("aria-label", title);
  dialog.replaceChildren(make("h2", "", title), stepsOf(steps, portal), form);
  dialog.showModal();
  inputs[0].input.focus();
}

function stepsOf(steps, portal) {
  const lines = steps.map((parts) => parts.map((part) => (part === PORTAL ? link(portal, "Discord developer portal") : part)));
  return lines.length === 1 ? make("p", "", ...lines[0]) : make("ol", "", ...lines.map((parts) => make("li", "", ...parts)));
}

function inputOf({ variable, label, secret, required, placeholder, note }, isSet) {
  const input = make("input");
  Object.assign(input, { type: secret ? "password" : "text", name: variable, autocomplete: "off", spellcheck: false, required: Boolean(required) && !isSet, placeholder: placeholder ?? "", maxLength: 2000 });
  const about = [isSet && "set in .env; empty keeps it", !isSet && note].filter(Boolean).join("");
  return { input, row: make("label", "setup-field", label, input, about ? make("span", "note", about) : "") };
}

function findingLine({ part, status, text }) {
  const words = /^https:/.test(text) ? link(text, text) : text;
  const sign = make("span", "sign", SIGNS[status] ?? "?");
  sign.setAttribute("aria-label", status);
  sign.setAttribute("role", "img");
  return make("li", status === "note" ? "note-of" : status, sign, make("span", "", make("strong", "", part), ": ", words));
}

function tell(element, text, bad = false) {
  element.textContent = text;
  element.className = bad ? "problem" : "hint";
}
