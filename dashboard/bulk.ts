/**
 * Changes many links: selected links in batches, so that progress can be shown, or all links that match a filter at
 * once.
 */
import { type Body, call } from './api.ts';
import { withRetries } from './retries.ts';

export type SharedChanges = Body<'PATCH /links/bulk'>['changes'];
export type LinkFilter = NonNullable<Body<'PATCH /links/bulk'>['filter']>;
/** Null: the links are deleted. */
export type BulkChange = SharedChanges | null;

/** The API's limit for a filter. */
export const matchingMax = 10_000;
const batchSize = 100;

export interface BulkResult {
  readonly done: number;
  /** Links that were rejected, with the API's message. */
  readonly refused: ReadonlyMap<string, string>;
  /** Links that were not tried, because of `fault`. */
  readonly left: readonly string[];
  readonly fault: unknown;
}

/** @param onProgress called with the number of processed links. */
export async function changeMany(
  ids: readonly string[],
  change: BulkChange,
  onProgress: (count: number) => void,
): Promise<BulkResult> {
  const refused = new Map<string, string>();
  let done = 0;
  for (let from = 0; from < ids.length; from += batchSize) {
    try {
      const answer = await withRetries(() => sendBatch({ ids: ids.slice(from, from + batchSize) }, change));
      done += answer.count;
      for (const { id, error } of answer.failed) refused.set(id, error.message);
    } catch (fault) {
      return { done, refused, left: ids.slice(from), fault };
    }
    onProgress(Math.min(from + batchSize, ids.length));
  }
  return { done, refused, left: [], fault: null };
}

export async function changeMatching(filter: LinkFilter, change: BulkChange): Promise<BulkResult> {
  try {
    const answer = await withRetries(() => sendBatch({ filter }, change));
    const refused = new Map(answer.failed.map(({ id, error }) => [id, error.message]));
    return { done: answer.count, refused, left: [], fault: null };
  } catch (fault) {
    return { done: 0, refused: new Map(), left: [], fault };
  }
}

async function sendBatch(which: { ids: string[] } | { filter: LinkFilter }, change: BulkChange) {
  if (change === null) {
    const { deleted, failed } = await call('DELETE /links/bulk', { body: which });
    return { count: deleted, failed };
  }
  const { updated, failed } = await call('PATCH /links/bulk', { body: { ...which, changes: change } });
  return { count: updated, failed };
}
