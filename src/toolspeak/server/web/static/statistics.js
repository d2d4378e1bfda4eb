// @ts-check
/** Statistics of repeated answers. */

/**
 * Wilson's 95% interval for a share.
 * @param {number} successes
 * @param {number} all
 * @returns {[number, number]}
 */
export function interval(successes, all) {
  if (!all) return [0, 1];
  const z = 1.96;
  const share = successes / all;
  const middle = (share + (z * z) / (2 * all)) / (1 + (z * z) / all);
  const spread = (z * Math.sqrt((share * (1 - share)) / all + (z * z) / (4 * all * all))) / (1 + (z * z) / all);
  return [successes ? Math.max(0, middle - spread) : 0, successes < all ? Math.min(1, middle + spread) : 1];
}

/** @param {number[]} numbers */
export function median(numbers) {
  if (!numbers.length) return 0;
  const sorted = [...numbers].sort((one, two) => one - two);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
