// @ts-check
/** Readable numbers and times. */

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const MINUTE = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} seconds since the epoch */
export const clock = (seconds) => CLOCK.format(seconds * 1000);

/** @param {number} seconds since the epoch */
export const minute = (seconds) => MINUTE.format(seconds * 1000);

/** @param {number} seconds since the epoch */
export const day = (seconds) => DAY.format(seconds * 1000);

/** @param {number} number */
export const compact = (number) => COMPACT.format(number);

/** @param {number} share between 0 and 1 */
export const percent = (share) => `${Math.round(share * 100)} %`;

/**
 * A duration.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 5e-7) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${+(seconds * 1000).toPrecision(3)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/**
 * A number with its noun, singular or plural.
 * @param {number} number
 * @param {string} one
 * @param {string} [several]
 */
export const plural = (number, one, several = `${one}s`) => `${number} ${number === 1 ? one : several}`;
