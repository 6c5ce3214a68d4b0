// Time travel: a slider over the last minutes, and a button back to now.

import { ago, make, set } from "./dom.js";
import { restartsOf, rises } from "./past.js";
import { draw, spark } from "./spark.js";

/** Creates the slider. `went()` is called when another moment is selected. */
export function travelOn(went) {
  const line = spark("of-travel");
  const slider = make("input", "travel");
  Object.assign(slider, { type: "range", min: "0", max: "0", value: "0", step: "1", title: "Drag to see the tree and the turns of an earlier moment" });
  slider.setAttribute("aria-label", "Moment that is shown, within the last ten minutes");
  const moment = make("span", "travel-moment", "now");
  const back = make("button", "quiet back-to-now", "Back to now");
  back.type = "button";
  back.hidden = true;
  const kills = make("div", "kills");
  kills.setAttribute("aria-hidden", "true");
  const box = make("div", "travel-box", line, kills, slider);
  const ended = make("p", "travel-breaks");
  ended.hidden = true;
  const element = make("div", "", box, ended);
  const label = make("p", "travel-label", moment, back);
  element.hidden = true;
  label.hidden = true;
  // The time is kept instead of the index: samples leave the window meanwhile.
  const state = { at: null };
  const tell = () => {
    back.hidden = state.at === null;
    for (const part of [box, label]) part.classList.toggle("travels", state.at !== null);
  };
  slider.addEventListener("input", () => {
    const samples = state.samples ?? [];
    const n = Number(slider.value);
    state.at = n >= samples.length - 1 ? null : samples[n]?.at ?? null;
    tell();
    went();
  });
  const now = () => {
    state.at = null;
    tell();
    went();
  };
  back.addEventListener("click", () => {
    now();
    slider.focus();
  });
  return {
    element,
    label,
    /** The selected sample; undefined for now. */
    sample: () => (state.at === null ? null : state.samples?.findLast((sample) => sample.at <= state.at) ?? null),
    now,
    /** Draws the range. */
    show: (past, span) => {
      state.samples = past.all();
      const { samples } = state;
      element.hidden = samples.length < 2;
      label.hidden = element.hidden;
      if (state.at !== null && samples[0]?.at > state.at) state.at = null;
      const n = state.at === null ? samples.length - 1 : past.indexAt(state.at);
      slider.max = String(Math.max(0, samples.length - 1));
      slider.value = String(n);
      const reach = { from: samples[0]?.at ?? 0, to: samples.at(-1)?.at ?? 0, every: past.every() };
      draw(line, rises(past.figures((one) => one.turns)), { ...reach, sum: true, marks: [...restartsOf(samples), ...past.breaks().map((one) => [one.to, 1])] });
      drawKills(kills, past.breaks(), reach);
      const breaks = past.breaks().map(toldOf);
      set(ended, breaks.length > 1 ? `${breaks.at(-1)} (and ${breaks.length - 1} earlier)` : breaks.join(""));
      ended.title = breaks.join("\n");
      const words = state.at === null ? "now" : `${new Date(state.at).toLocaleTimeString([], { timeStyle: "medium" })}, ${ago(Math.max(0, span.to - state.at))} ago`;
      if (moment.textContent !== words) moment.textContent = words;
      slider.setAttribute("aria-valuetext", words);
      tell();
    },
  };
}

/** Draws a mark for the end of each process. */
function drawKills(box, breaks, { from, to }) {
  const places = breaks.map((one) => Math.min(100, Math.max(0, ((one.from - from) / Math.max(1, to - from)) * 100)));
  const told = places.map((place) => place.toFixed(1)).join(" ");
  if (box.dataset.told === told) return;
  box.dataset.told = told;
  box.replaceChildren(...places.map((place) => {
    const mark = make("i", "kill-mark");
    mark.style.left = `${place}%`;
    return mark;
  }));
}

/** Describes the end of one process. */
function toldOf({ from, to, kind }) {
  const time = (at) => new Date(at).toLocaleTimeString([], { timeStyle: "medium" });
  return `${kind} ${time(from)}, back ${time(to)}`;
}
