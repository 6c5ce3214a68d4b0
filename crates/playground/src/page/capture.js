// Runs beside the page: turns the microphone's samples into 16,000 per second of 16 bits.

const RATE = 16_000;
/** The length of a message, in samples: 20 milliseconds. */
const LENGTH = 320;

class Capture extends AudioWorkletProcessor {
  #sum = 0;
  #count = 0;
  #phase = 0;
  #samples = new Int16Array(LENGTH);
  #filled = 0;

  process([[channel]]) {
    for (const sample of channel ?? []) {
      // Each output sample is the mean of the input samples of its time.
      this.#sum += sample;
      this.#count += 1;
      this.#phase += RATE / sampleRate;
      while (this.#phase >= 1) {
        this.#phase -= 1;
        this.#put(this.#count > 0 ? this.#sum / this.#count : sample);
        [this.#sum, this.#count] = [0, 0];
      }
    }
    return true;
  }

  #put(value) {
    this.#samples[this.#filled++] = Math.max(-1, Math.min(1, value)) * 32_767;
    if (this.#filled < LENGTH) return;
    this.port.postMessage(this.#samples, [this.#samples.buffer]);
    this.#samples = new Int16Array(LENGTH);
    this.#filled = 0;
  }
}

registerProcessor("capture", Capture);
