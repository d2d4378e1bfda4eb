// @ts-check
/** Percentiles of times that the server counts in buckets. */

/** The upper bound of bucket 0 in seconds, and how much larger the bound of each following bucket is. */
const [FIRST_BOUND, GROWTH] = [0.01, 1.25];

/** @typedef {Record<string, number>} Buckets number of requests by bucket */

/**
 * The time that a share of the requests does not exceed; null if there are none. It is right to about a tenth.
 * @param {Buckets} buckets
 * @param {number} share
 */
export function percentile(buckets, share) {
  const sorted = Object.entries(buckets).sort(([one], [two]) => Number(one) - Number(two));
  const wanted = share * sorted.reduce((sum, [, count]) => sum + count, 0);
  let below = 0;
  for (const [bucket, count] of sorted) {
    if (below + count >= wanted) {
      const upper = FIRST_BOUND * GROWTH ** Number(bucket);
      const lower = Number(bucket) ? upper / GROWTH : 0;
      return lower + ((upper - lower) * (wanted - below)) / count;
    }
    below += count;
  }
  return null;
}
