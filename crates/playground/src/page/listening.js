// Push to talk and hands-free: the server hears if it can, otherwise the browser's own recognition.

import { microphone, recognition, recognizes } from "./ears.js";
import { at } from "./world.js";

const REASONS = {
  NotAllowedError: "The browser blocks the microphone for this page. Allow it in the address bar, then try again.",
  NotFoundError: "There is no microphone. Connect one, then try again; or write instead.",
  NotReadableError: "Another program uses the microphone. Close it, then try again.",
  "audio-capture": "There is no microphone, or another program uses it. Connect one or close that program, then try again.",
  "service-not-allowed": "The browser's recognition of speech is switched off. Switch it on in the settings of the browser, set speech.hearing, or write instead.",
  "language-not-supported": "The browser does not recognize the language of this page. Set speech.hearing, or write instead.",
  network: "Your browser recognizes speech on a server of its maker, which does not answer. Write instead, or set speech.hearing.",
  "not-allowed": "The browser does not allow the recognition of speech on this page.",
};

/** Connects the buttons. `page` has the functions of the page that hearing calls. */
export function listening(page) {
  // How it listens: "", "push" or "hands"; what ends that; and the words so far.
  const now = { mode: "", close: null, speaks: false, partial: "", ended: 0, waits: false, server: false };
  let opening = Promise.resolve();

  const open = async (mode) => {
    now.mode = mode;
    page.wake();
    if (mode === "push") page.interrupt();
    try {
      if (now.server) {
        const close = await microphone(page.sound, (loudness) => (at("level").value = Math.min(1, loudness * 4)));
        if (now.mode !== mode) return void close();
        page.send({ event: "listen", hands_free: mode === "hands" });
        now.close = () => {
          const closed = close();
          page.send({ event: "listen_end" });
          return closed;
        };
      } else {
        const level = await microphone(() => {}, (loudness) => (at("level").value = Math.min(1, loudness * 4)));
        const stop = recognition(recognized, () => mode === "hands" && page.interrupt(), failed);
        now.close = () => {
          stop();
          return level();
        };
      }
    } catch (error) {
      failed(error.name);
    }
    show();
  };

  const close = () => {
    now.mode = "";
    now.ended = performance.now();
    opening = opening.then(() => {
      now.close?.();
      now.close = null;
    });
    now.speaks = false;
    show();
  };

  const start = (mode) => {
    if (now.mode) close();
    opening = opening.then(() => open(mode));
    now.mode = mode;
    show();
  };

  const failed = (reason) => {
    if (now.mode) close();
    now.waits = false;
    page.complain(REASONS[reason] ?? `The microphone cannot be used (${reason}). Reload the page and try again, or write instead.`);
  };

  const recognized = (text, final) => {
    now.partial = final ? "" : text;
    now.waits = !final;
    if (!final || !text) return;
    if (now.ended) page.timed(performance.now() - now.ended);
    page.ask(text);
  };

  const show = () => {
    at("talk").classList.toggle("held", now.mode === "push");
    at("hands").setAttribute("aria-pressed", String(now.mode === "hands"));
  };

  const hold = () => now.mode !== "push" && start("push");
  const letGo = () => now.mode === "push" && close();
  const isKey = (event) => event.key === " " || event.key === "Enter";
  at("talk").addEventListener("pointerdown", hold);
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) at("talk").addEventListener(end, letGo);
  at("talk").addEventListener("keydown", (event) => {
    if (!isKey(event)) return;
    event.preventDefault();
    if (!event.repeat) hold();
  });
  at("talk").addEventListener("keyup", (event) => isKey(event) && letGo());
  at("talk").addEventListener("blur", letGo);
  // The space bar talks unless another element uses it.
  const free = (event) => event.key === " " && event.target === document.body && !at("talk").disabled;
  document.addEventListener("keydown", (event) => {
    if (!free(event)) return;
    event.preventDefault();
    if (!event.repeat) hold();
  });
  document.addEventListener("keyup", (event) => free(event) && letGo());
  at("hands").addEventListener("click", () => (now.mode === "hands" ? close() : start("hands")));

  return {
    /** Receives what the server can do, and returns a sentence about it. */
    available(hears) {
      now.server = Boolean(hears);
      const can = now.server || recognizes();
      at("talk").disabled = at("hands").disabled = !can;
      // A new connection has to be told again.
      if (now.server && now.mode && now.close) page.send({ event: "listen", hands_free: now.mode === "hands" });
      if (now.server) return `The server hears with ${hears}.`;
      if (can) return "Your browser recognizes speech, and may send what you say to its maker. Set speech.hearing to let the server hear instead.";
      return "Neither the server nor your browser recognizes speech. Write instead, or set speech.hearing.";
    },
    /** Receives words of the server. */
    heard(text, final) {
      now.partial = final ? "" : text;
      now.waits = !final;
      if (final && now.ended) page.timed(performance.now() - now.ended);
    },
    /** Receives the beginning and the end of speech. */
    speech(on) {
      now.speaks = on;
      now.waits = !on;
      if (!on) now.ended = performance.now();
    },
    /** Receives that no words were recognized. */
    gaveUp() {
      now.waits = false;
    },
    partial: () => now.partial,
    /** True while the words of finished speech are awaited. */
    isRecognizing: () => now.waits,
    isOpen: () => Boolean(now.mode),
    isSpeaking: () => now.mode === "push" || now.speaks,
  };
}
