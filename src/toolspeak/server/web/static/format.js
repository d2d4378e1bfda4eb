// @ts-check
/** Readable numbers and times. */

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const MINUTE = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
const GROUPED = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} seconds since the epoch */
export const clock = (seconds) => CLOCK.format(seconds * 1000);

/** @param {number} seconds since the epoch */
export const minute = (seconds) => MINUTE.format(seconds * 1000);

/** @param {number} seconds since the epoch */
export const day = (seconds) => DAY.format(seconds * 1000);

/** @param {number} number */
export const compact = (number) => COMPACT.format(number);

/** @param {number} share between 0 and 1; only 1 itself is 100%, and only 0 itself is 0% */
export const percent = (share) => (share > 0.99 && share < 1 ? `${Math.min(99.9, Math.round(share * 1000) / 10)}%` : share > 0 && share < 0.005 ? "< 1%" : `${Math.round(share * 100)}%`);

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
 * A text with a capital letter and a full stop, as a sentence. Names that begin in code or with a lower-case brand stay.
 * @param {string} text
 */
export const sentence = (text) => `${/^toolspeak\b/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1)}${/[.!?…]$/.test(text.trim()) ? "" : "."}`;

/**
 * A number with its noun, singular or plural.
 * @param {number} number
 * @param {string} one
 * @param {string} [several]
 */
export const plural = (number, one, several = `${one}s`) => `${GROUPED.format(number)} ${number === 1 ? one : several}`;
