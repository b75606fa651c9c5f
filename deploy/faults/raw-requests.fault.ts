/**
 * Sends a hundred thousand requests that no browser would send: the process survives, its memory stays flat, and each
 * redirect is one click.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { residentMib } from '#deploy/journeys/memory.ts';
import { differences, fuzz, type SeenClick } from '#redirector/testing/fuzz.ts';
import { seed, sized } from './fault-sizes.ts';
import { Stage } from './stage.ts';

const GROWTH_MIB = 60;
const name = 'redirector-0';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

test('malformed requests get only valid answers, kill nothing, cost no memory, and each redirect is one click', async () => {
  const link = await stage.newLink('/raw');
  const target = { port: stage.port, host: stage.host, code: link.short_code };
  const pid = stage.stack.pidOf(name);
  const count = sized('FAULTS_REQUESTS', 100_000);
  const warm = await fuzz(target, Math.round(count / 10), seed);
  const beforeMib = residentMib(pid);
  const result = await fuzz(target, count, seed + 1, Math.round(count / 10) + 1_000);
  const afterMib = residentMib(pid);
  const { requests, connections, statuses, unanswered, redirected, anonymous } = result;
  console.log(
    `raw requests (seed ${seed}): ${requests} on ${connections} connections, ${JSON.stringify(statuses)}, ${unanswered} without an answer; ` +
      `${redirected.size} numbered redirects, ${anonymous} others; ${beforeMib} → ${afterMib} MiB`,
  );
  expect([...warm.findings, ...result.findings].join('\n')).toBe('');
  expect(stage.stack.pidOf(name)).toBe(pid);
  expect(afterMib - beforeMib).toBeLessThan(GROWTH_MIB);
  const clicks = async (): Promise<SeenClick[]> => {
    const rows = await stage.stored.ask(
      `SELECT click_id, query FROM clicks WHERE link_id = '${link.id}' FORMAT JSONEachRow`,
    );
    return rows === '' ? [] : rows.split('\n').map((row) => JSON.parse(row));
  };
  const found = async () => {
    const rows = await clicks();
    return [...differences(warm, rows, false), ...differences(result, rows)];
  };
  await expect.poll(found, { timeout: 60_000, interval: 1_000 }).toEqual([]);
  const letters = await stage.stored.ask(
    'SELECT reason, count(), any(record) FROM dead_letters GROUP BY reason FORMAT TSV',
  );
  console.log(`  ${(await clicks()).length} clicks are stored`);
  expect(letters).toBe('');
});
