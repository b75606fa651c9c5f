/** Tests the comparison that the other faults rely on: it detects every difference that it is meant to detect. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickLoad } from './click-load.ts';
import { Ledger } from './ledger.ts';
import { Stage } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

test('a deleted, a duplicated and an invented click and a wrong rollup are each detected', async () => {
  const link = await stage.newLink('/comparison');
  const ledger = new Ledger();
  const load = new ClickLoad({
    ...{ port: stage.port, host: stage.host, code: link.short_code, ledger },
    ...{ rate: 500, visitors: 4 },
  });
  load.start();
  await expect.poll(() => load.sent, { timeout: 10_000 }).toBeGreaterThan(200);
  await load.stop();
  const verdict = async () => {
    const { lost, duplicated, phantom } = ledger.judge(await stage.stored.clicks(link.id));
    return { lost, duplicated, phantom, rollup_diff: await stage.stored.rollupDifference() };
  };
  const sound = { lost: 0, duplicated: 0, phantom: 0, rollup_diff: 0 };
  await expect.poll(verdict, { timeout: 20_000 }).toEqual(sound);
  const one = (number: number) => `link_id = '${link.id}' AND query = 'n=${number}'`;
  // The rollups then count one click too many: in one row by link and five by dimension.
  await stage.stored.ask(`ALTER TABLE clicks DELETE WHERE ${one(5)} SETTINGS mutations_sync = 2`);
  expect(await verdict()).toEqual({ ...sound, lost: 1, rollup_diff: 6 });
  await stage.stored.ask(`INSERT INTO clicks SELECT * FROM clicks WHERE ${one(7)}`);
  expect(await verdict()).toEqual({ ...sound, lost: 1, duplicated: 1, rollup_diff: 6 });
  await stage.stored.ask(
    `INSERT INTO clicks SELECT * REPLACE ('n=900000' AS query) FROM (SELECT * FROM clicks WHERE ${one(9)})`,
  );
  expect(await verdict()).toEqual({ lost: 1, duplicated: 1, phantom: 1, rollup_diff: 6 });
});
