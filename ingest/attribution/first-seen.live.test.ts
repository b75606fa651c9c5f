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

test('ids that a batch repeats count once, also when the memory of recent ids is let go with that batch', async () => {
  const seen = new FirstSeen(clickhouse);
  for (let n = 0; n < 12; n++) {
    const fresh = batch(n * 2, n * 30_000, 30_000);
    expect(firsts(await seen.settle(fresh))).toBe(30_000);
    // Behind new ids stand those of the batch before, which waits to be stored.
    const before = Math.max(0, n - 1) * 30_000;
    expect(firsts(await seen.settle([...batch(n * 2 + 1, 1_000_000 + n, 1), ...batch(100 + n, before, 30_000)]))).toBe(
      1,
    );
  }
}, 60_000);
