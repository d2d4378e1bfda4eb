// @ts-check
/** Long work in turns: after a few milliseconds others have theirs, so that the page never feels stuck. */

/** Milliseconds of one turn: half a frame. */
const TURN = 8;

const channel = new MessageChannel();
/** @type {(() => void)[]} */
const waiting = [];
channel.port1.onmessage = () => waiting.shift()?.();

/** Until others had their turn. Timers would wait a second in a tab that nobody sees. */
const pause = () =>
  new Promise((/** @type {(value: void) => void} */ resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });

/** Says when a turn is over. */
export class Turn {
  constructor() {
    this._began = performance.now();
  }

  get over() {
    return performance.now() - this._began > TURN;
  }

  /** Lets others have theirs, and begins another one. */
  async next() {
    await pause();
    this._began = performance.now();
  }
}
