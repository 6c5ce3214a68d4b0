// The microphone, and the browser's own recognition of speech.

import { rms } from "./player.js";

/** Opens the microphone. `hear` receives samples: 16,000 per second, 16 bits; `level` their loudness from 0 to 1. */
export async function microphone(hear, level) {
  const sound = { echoCancellation: true, noiseSuppression: true, channelCount: 1 };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: sound });
  const context = new AudioContext();
  const close = () => {
    for (const track of stream.getTracks()) track.stop();
    return context.close();
  };
  try {
    await context.audioWorklet.addModule("/playground/capture.js");
  } catch (error) {
    await close();
    throw error;
  }
  const source = context.createMediaStreamSource(stream);
  const capture = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
  let open = true;
  capture.port.addEventListener("message", ({ data }) => {
    // Samples that were captured before the end arrive after it.
    if (!open) return;
    level(rms(Array.from(data, (sample) => sample / 32_768)));
    hear(data.buffer);
  });
  capture.port.start();
  source.connect(capture);
  return () => {
    open = false;
    level(0);
    return close();
  };
}

/** True if the browser recognizes speech. */
export const recognizes = () => Boolean(window.SpeechRecognition ?? window.webkitSpeechRecognition);

/**
 * Starts the browser's recognition; it goes on until the returned function is called. `heard` receives a text and true
 * once it is final, `begins` is called when speech begins, and `failed` with the reason of an end.
 */
export function recognition(heard, begins, failed) {
  const Recognition = window.SpeechRecognition ?? window.webkitSpeechRecognition;
  const engine = new Recognition();
  Object.assign(engine, { continuous: true, interimResults: true, lang: document.documentElement.lang });
  let wanted = true;
  engine.addEventListener("speechstart", begins);
  engine.addEventListener("result", (event) => {
    for (const result of [...event.results].slice(event.resultIndex)) heard(result[0].transcript.trim(), result.isFinal);
  });
  engine.addEventListener("error", (event) => {
    if (event.error === "no-speech" || event.error === "aborted") return;
    wanted = false;
    failed(event.error);
  });
  // Browsers end it after a while of silence.
  engine.addEventListener("end", () => wanted && engine.start());
  engine.start();
  return () => {
    wanted = false;
    engine.stop();
  };
}
