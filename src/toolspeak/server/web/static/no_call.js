// @ts-check
/** Why an answer has no call, for the text that is shown: it may come from an earlier attempt than the last. */

import { sentence } from "./format.js";

/**
 * @param {{why_no_call: string, attempts: {raw: string, fault: {why: string} | null}[]}} trace
 * @param {string} text that is shown
 * @returns {string} one or two sentences
 */
export function whyNoCall({ why_no_call: last, attempts }, text) {
  const shown = attempts.findIndex((attempt) => attempt.raw.trim() === text.trim());
  const why = attempts[shown]?.fault?.why;
  if (!text.trim() || shown < 0 || shown === attempts.length - 1 || !why) return sentence(last);
  const before = sentence(why);
  return why === last ? `${before} The retry failed for the same reason.` : `${before} After the last retry: ${last}.`;
}
