// The browser's own voice, for a server without one. It has the functions of the player.

/** Returns the voice, or null if the browser has none. `begun` is called with each sentence when it sounds. */
export function reciter(begun) {
  const synthesis = window.speechSynthesis;
  if (!synthesis) return null;
  let [now, heard, waiting, generation] = [null, null, 0, 0];
  return {
    say(turn, sentence, speech) {
      const mine = generation;
      const utterance = new SpeechSynthesisUtterance(speech);
      utterance.addEventListener("start", () => {
        if (mine !== generation) return;
        now = { turn, sentence, part: 0 };
        begun(now);
      });
      utterance.addEventListener("boundary", (event) => {
        if (mine === generation && now) now.part = event.charIndex / speech.length;
      });
      const over = () => {
        if (mine !== generation) return;
        heard = { turn, sentence };
        now = null;
        waiting -= 1;
      };
      utterance.addEventListener("end", over);
      utterance.addEventListener("error", over);
      waiting += 1;
      synthesis.speak(utterance);
    },
    stop() {
      generation += 1;
      [now, heard, waiting] = [null, now ?? heard, 0];
      synthesis.cancel();
    },
    now: () => now,
    heardTo: (turn) => [now, heard].find((one) => one?.turn === turn)?.sentence ?? null,
    sounds: () => waiting > 0,
    // The browser does not let the page measure its voice.
    loudness: () => (now ? 0.08 + 0.06 * Math.sin(performance.now() / 70) : 0),
  };
}
