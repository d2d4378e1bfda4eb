// @ts-check
/** Long work in time slices: other tasks run in between, so that the page stays responsive. */

/** Milliseconds of one slice: half a frame. */
const SLICE = 8;

const channel = new MessageChannel();
/** @type {(() => void)[]} */
const waiting = [];
channel.port1.onmessage = () => waiting.shift()?.();

/** Lets other tasks run. A timer would wait for a second in a hidden tab. */
const pause = () =>
  new Promise((/** @type {(value: void) => void} */ resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });

/** Measures one time slice. */
export class TimeSlice {
  constructor() {
    this._start = performance.now();
  }

  get expired() {
    return performance.now() - this._start > SLICE;
  }

  /** Lets other tasks run, and begins the next slice. */
  async next() {
    await pause();
    this._start = performance.now();
  }
}
