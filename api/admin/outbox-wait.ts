/** Waits until the API has published a committed change to Redis and the redirectors. */
import type { Queries } from '#common/stores/postgres.ts';
import { sleep, systemTime } from '#common/time.ts';

const patienceMs = 5_000;
const pauseMs = 50;

/**
 * Covers every change recorded before the call. False if no API process published them in time; they are published once
 * an API process runs and reaches Redis.
 */
export async function untilDelivered(db: Queries): Promise<boolean> {
  const [noted] = await db.query<{ last: number | null }>('SELECT max(id) AS last FROM outbox');
  const last = noted?.last ?? null;
  const endMs = performance.now() + patienceMs;
  while (last !== null && performance.now() < endMs) {
    const waiting = await db.query('SELECT FROM outbox WHERE id <= $1 LIMIT 1', [last]);
    if (waiting.length === 0) return true;
    await sleep(systemTime, pauseMs);
  }
  return last === null;
}
