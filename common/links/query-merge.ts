/** Which value a parameter keeps that the destination and the visit both name. Of utm_… it is always that of the visit. */
export const queryMerges = ['destination', 'visit'] as const;
export type QueryMerge = (typeof queryMerges)[number];

/** @param value of a stored setting. */
export function queryMergeOf(value: unknown): QueryMerge {
  return value === 'visit' ? 'visit' : 'destination';
}
