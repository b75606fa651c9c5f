/** Chooses which paths are requested. Seeds are fixed, so that two runs request the same paths. */

/** Draws 1..n, each k with a probability proportional to 1/k: a few links get most of the clicks. */
export function zipf(n: number, random: () => number): () => number {
  const sums = new Float64Array(n);
  let sum = 0;
  for (let k = 1; k <= n; k++) {
    sum += 1 / k;
    sums[k - 1] = sum;
  }
  return () => {
    const wanted = random() * sum;
    let low = 0;
    let high = n - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) < wanted) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  };
}
