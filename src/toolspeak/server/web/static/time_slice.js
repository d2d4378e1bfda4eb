// @ts-check
/** Splits long work into time slices with other tasks in between, so the page stays responsive. */

/** Length of a slice in milliseconds: half a frame. */
const SLICE = 8;

const channel = new MessageChannel();
/** @type {(() => void)[]} */
const waiting = [];
channel.port1.onmessage = () => waiting.shift()?.();

/** Lets other tasks run. A timer would wait up to a second in a hidden tab. */
const pause = () =>
  new Promise((/** @type {(value: void) => void} */ resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });

/** Measures time slices. */
export class TimeSlice {
  constructor() {
    this._start = performance.now();
  }

  get expired() {
    return performance.now() - this._start > SLICE;
  }

  /** Lets other tasks run, then begins the next slice. */
  async next() {
    await pause();
    this._start = performance.now();
  }
}
