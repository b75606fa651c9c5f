import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { clickhouseForTest, type TestDatabase } from '#deploy/local/test-servers.ts';
import { type Claim, FirstSeen } from './first-seen.ts';

let database: TestDatabase;
let clickhouse: ClickHouse;
beforeAll(async () => {
  database = await clickhouseForTest();
  clickhouse = new ClickHouse({ url: database.url });
});
afterAll(async () => {
  await clickhouse.close();
  await database.stop();
});

/** Events of one batch, each with the id of its number. */
function batch(frame_no: number, from: number, count: number): Claim[] {
  return Array.from({ length: count }, (_, idx) => ({
    ...{ kind: 'event' as const, app_id: 'app_x', id: `event-${from + idx}`, received_at: Date.now() },
    origin: { producer_id: 'p', frame_no, idx },
  }));
}

const firsts = (verdicts: readonly boolean[]) => verdicts.filter(Boolean).length;

test('what two batches hold that are not stored yet counts once, however many events they have', async () => {
  const seen = new FirstSeen(clickhouse);
  const [stored, formed] = [batch(1, 0, 130_000), batch(2, 130_000, 130_000)];
  expect(firsts(await seen.settle(stored))).toBe(130_000);
  expect(firsts(await seen.settle(formed))).toBe(130_000);
  const next = [...batch(3, 260_000, 10), ...batch(4, 0, 260_000)];
  expect(firsts(await seen.settle(next))).toBe(10);
  // Formed again after a crash between, each is what it was.
  expect(firsts(await seen.settle(stored))).toBe(130_000);
  expect(firsts(await seen.settle(formed))).toBe(130_000);
}, 60_000);

test('ids that are recent when a batch begins count once in it, also when they are let go with that batch', async () => {
  const seen = new FirstSeen(clickhouse);
  for (let n = 0; n < 9; n++) {
    // Behind new ids, as many as fill a generation sooner or later, stand those of the first batch.
    const again = n === 6 || n === 8 ? batch(100 + n, 0, 30_000) : [];
    expect(firsts(await seen.settle([...batch(n, n * 30_000, 30_000), ...again]))).toBe(30_000);
  }
}, 60_000);
