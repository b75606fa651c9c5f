import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { PipelineHarness, testClick } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
beforeAll(async () => {
  way = await PipelineHarness.start();
});
afterAll(() => way.stop());
afterEach(() => way.stopIngests());

const patience = { timeout: 60_000, interval: 250 };
const long = 120_000;
const noWaiter = { committed: () => undefined, refused: () => undefined };

function keepPoison(): void {
  way.journal.append(way.journal.lane('click', 0), testClick(Date.now()).replace('"a=b"', '"poison"'), noWaiter);
}

test(
  'rows that ClickHouse refuses become dead letters, and the rows beside them are stored once',
  async () => {
    await way.client.command("ALTER TABLE clicks ADD CONSTRAINT sound CHECK query != 'poison'");
    for (let n = 0; n < 7; n++) {
      await way.keep(31);
      keepPoison();
      if (n % 3 === 0) keepPoison();
    }
    await way.keep(40);
    const ingest = way.ingest();
    await expect.poll(() => way.figures(), patience).toEqual({ ...way.wanted, dead_letters: 10 });
    const rows = await way.client.query(
      "SELECT DISTINCT kind, reason, position(record, 'poison') > 0 AS kept FROM dead_letters",
    );
    expect(rows).toEqual([{ kind: 'click', reason: 'refused', kept: 1 }]);
    await ingest.stop();
    await way.client.command('ALTER TABLE clicks DROP CONSTRAINT sound');
  },
  long,
);

test('if every row is refused, nothing is dropped: the rows are stored once the cause is fixed', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const { dead_letters } = await way.figures();
  await way.client.command('ALTER TABLE clicks ADD CONSTRAINT closed CHECK idx < 0');
  const ingest = way.ingest();
  await way.keep(200);
  await expect.poll(() => ingest.output.split('refuses rows').length, patience).toBeGreaterThan(1);
  await way.client.command('ALTER TABLE clicks DROP CONSTRAINT closed');
  await expect.poll(() => way.figures(), patience).toEqual({ ...way.wanted, dead_letters });
  await ingest.stop();
});

test('killing ingest while it searches for refused rows loses nothing and counts nothing twice', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const { dead_letters } = await way.figures();
  await way.client.command("ALTER TABLE clicks ADD CONSTRAINT sound CHECK query != 'poison'");
  await way.keep(50);
  keepPoison();
  await way.keep(50);
  for (const failpoint of ['before:2', 'inserted']) {
    const killed = way.ingest(failpoint);
    await killed.exited;
    expect(killed.process.signalCode).toBe('SIGKILL');
    keepPoison();
    await way.keep(20);
  }
  const last = way.ingest();
  await expect.poll(() => way.figures(), patience).toEqual({ ...way.wanted, dead_letters: dead_letters + 3 });
  await last.stop();
  expect(last.output).toContain('a batch of an earlier owner was reconciled {"batch_no"');
});
