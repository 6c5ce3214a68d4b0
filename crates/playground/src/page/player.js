// Plays the audio of sentences in their order, while it arrives.

/** The delay of the first sound, in seconds: later pieces arrive within it. */
const SOON_S = 0.03;
/** Samples per second of audio without a header. */
const RAW_RATE = 24_000;

/**
 * A player of an audio context. `begun` is called with each sentence when its sound is scheduled.
 * A sentence is named by its turn and its number.
 */
export function player(context, begun) {
  const gain = context.createGain();
  const meter = context.createAnalyser();
  meter.fftSize = 512;
  gain.connect(meter).connect(context.destination);
  const window = new Float32Array(meter.fftSize);
  // The last sentence that began to sound before everything was silenced.
  let [clips, sources, free, heard] = [[], new Set(), 0, null];
  // Compressed audio is decoded asynchronously, so all steps wait for the ones before them.
  let steps = Promise.resolve();
  let generation = 0;

  const clipOf = (turn, sentence) => {
    const last = clips.at(-1);
    if (last?.turn === turn && last.sentence === sentence) return last;
    // Of earlier turns, only what still sounds is needed.
    clips = clips.filter((one) => one.turn === turn || one.ends === null || one.ends > context.currentTime);
    const clip = { turn, sentence, format: "", bytes: new Uint8Array(0), layout: null, begins: null, ends: null, complete: false };
    clips.push(clip);
    return clip;
  };

  /** Returns the last clip that began to sound, of one turn or of all. */
  const begunLast = (turn) => {
    const began = (one) => (turn === undefined || one.turn === turn) && one.begins !== null && one.begins <= context.currentTime;
    return clips.findLast(began);
  };

  const schedule = (clip, buffer) => {
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(gain);
    const begins = Math.max(free, context.currentTime + SOON_S);
    source.start(begins);
    free = begins + buffer.duration;
    sources.add(source);
    source.addEventListener("ended", () => sources.delete(source));
    if (clip.begins === null) {
      clip.begins = begins;
      begun(clip, begins);
    }
    clip.ends = free;
  };

  const samples = (clip) => {
    const layout = (clip.layout ??= layoutOf(clip));
    if (!layout?.plain) return;
    const whole = (clip.bytes.length - layout.at) & ~1;
    if (whole <= 0) return;
    const bytes = new DataView(clip.bytes.buffer, clip.bytes.byteOffset + layout.at, whole);
    clip.bytes = clip.bytes.slice(layout.at + whole);
    layout.at = 0;
    const buffer = context.createBuffer(1, whole / 2, layout.rate);
    const channel = buffer.getChannelData(0);
    for (let n = 0; n < channel.length; n++) channel[n] = bytes.getInt16(n * 2, true) / 32_768;
    schedule(clip, buffer);
  };

  const then = (step) => {
    const mine = generation;
    steps = steps.then(() => (mine === generation ? step(mine) : undefined)).catch(() => {});
  };

  return {
    /** Adds audio of a sentence. */
    push(turn, sentence, format, bytes) {
      then(() => {
        const clip = clipOf(turn, sentence);
        clip.format ||= format;
        clip.bytes = joined(clip.bytes, bytes);
        samples(clip);
      });
    },
    /** Completes a sentence. */
    end(turn, sentence) {
      then(async (mine) => {
        const clip = clipOf(turn, sentence);
        clip.complete = true;
        if (clip.layout?.plain || clip.bytes.length === 0) return;
        const bytes = clip.bytes;
        clip.bytes = new Uint8Array(0);
        const buffer = await context.decodeAudioData(bytes.slice().buffer);
        if (mine === generation) schedule(clip, buffer);
      });
    },
    /** Silences everything at once. */
    stop() {
      generation += 1;
      heard = begunLast() ?? heard;
      for (const source of sources) source.stop();
      [clips, free] = [[], 0];
      sources.clear();
    },
    /** Returns the sentence that sounds now, and the part of it that was heard, from 0 to 1. */
    now() {
      const time = context.currentTime;
      const clip = clips.find((one) => one.begins !== null && one.begins <= time && time < one.ends);
      return clip && { turn: clip.turn, sentence: clip.sentence, part: (time - clip.begins) / (clip.ends - clip.begins) };
    },
    /** Returns the last sentence of a turn that began to sound; null if there is none. */
    heardTo: (turn) => (begunLast(turn) ?? (heard?.turn === turn ? heard : null))?.sentence ?? null,
    /** True while sound is scheduled. */
    sounds: () => free > context.currentTime,
    /** Returns the loudness of the present sound, from 0 to 1. */
    loudness() {
      meter.getFloatTimeDomainData(window);
      return rms(window);
    },
  };
}

/** Returns the root mean square of samples. */
export function rms(samples) {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  return Math.sqrt(sum / samples.length);
}

function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** Returns where samples begin and their rate; null before the header is complete. */
function layoutOf({ format, bytes }) {
  if (format === "audio/pcm") return { plain: true, at: 0, rate: RAW_RATE };
  if (format !== "audio/wav") return { plain: false };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const name = (at) => String.fromCharCode(...bytes.slice(at, at + 4));
  let [at, rate, plain] = [12, 0, false];
  while (at + 8 <= bytes.length) {
    // Lengths of samples may be placeholders; those of other parts are true.
    const [part, length] = [name(at), view.getUint32(at + 4, true)];
    if (part === "data") return { plain: plain && rate > 0, at: at + 8, rate };
    if (at + 8 + length > bytes.length) return null;
    if (part === "fmt ") {
      const [kind, channels, bits] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true), view.getUint16(at + 22, true)];
      plain = kind === 1 && channels === 1 && bits === 16;
      rate = view.getUint32(at + 12, true);
    }
    at += 8 + length + (length & 1);
  }
  return null;
}
