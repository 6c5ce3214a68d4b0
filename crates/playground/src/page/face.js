// The face: the mouth follows the loudness, brows and cheeks the emotions of the text.

import { at } from "./world.js";

const MOODS = {
  anger: "cross", angry: "cross", disgust: "cross", sad: "sad", sadness: "sad", fear: "startled", surprise: "startled",
  excited: "glad", happy: "glad", joy: "glad", laugh: "glad", smile: "glad", smirk: "glad", shy: "glad",
};
/** The loudness that opens the mouth completely. */
const LOUD = 0.22;
/** The share of the mouth's way to its next shape in one frame. */
const EASE = 0.45;

const still = matchMedia("(prefers-reduced-motion: reduce)");
let open = 0;

/** Shows an emotion of the text, or the calm face. */
export function feel(emotion) {
  at("face-box").dataset.mood = MOODS[emotion] ?? "calm";
}

/** Shows the activity: idle, listening, thinking or speaking. */
export function act(doing) {
  if (at("face-box").dataset.doing !== doing) at("face-box").dataset.doing = doing;
}

/** Moves the mouth. With reduced motion it has two shapes: closed, and half open while it speaks. */
export function mouth(loudness) {
  const wanted = still.matches ? (loudness > 0.01 ? 0.5 : 0) : Math.min(1, loudness / LOUD);
  const next = still.matches ? wanted : open + (wanted - open) * EASE;
  if (Math.abs(next - open) < 0.002 && next !== wanted) return;
  open = next;
  const [upper, lower] = [134 - 6 * open, 138 + 26 * open];
  at("mouth").setAttribute("d", `M84 130Q100 ${upper.toFixed(1)} 116 130Q100 ${lower.toFixed(1)} 84 130Z`);
  at("mouth").dataset.open = open.toFixed(2);
}
