import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { Nats } from '#common/stores/nats.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
beforeAll(async () => {
  way = await PipelineHarness.start({ hasOwnClickhouse: true });
});
afterAll(() => way.stop());
afterEach(() => way.stopIngests());

const patience = { timeout: 45_000, interval: 250 };
const long = 90_000;

/** Appends until ClickHouse has stored this many more rows, so that the next insert is probably in progress. */
async function keepUntilStored(more: number): Promise<void> {
  const wanted = (await way.figures()).rows + more;
  while ((await way.figures()).rows < wanted) await way.keep(20);
}

/** Appends until the publisher waits for an acknowledgement of the log. */
async function keepUntilPublishing(): Promise<void> {
  do await way.keep(20);
  while (way.publisher.messagesInFlight === 0);
}

test('killing ClickHouse during inserts loses nothing and counts nothing twice, including rollups', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const ingest = way.ingest();
  for (let kills = 0; kills < 5; kills++) {
    await way.keep(500);
    const before = way.kept;
    await keepUntilStored(50 + kills * 100);
    await way.clickhouse.kill('SIGKILL');
    await way.keep(100);
    await way.clickhouse.restart();
    await expect.poll(async () => (await way.figures()).rows, patience).toBeGreaterThanOrEqual(before);
  }
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await ingest.stop();
});

test('killing ClickHouse and ingest together loses nothing and counts nothing twice', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  for (let kills = 0; kills < 4; kills++) {
    const ingest = way.ingest();
    const before = way.kept;
    await way.keep(300);
    await expect.poll(async () => (await way.figures()).rows, patience).toBeGreaterThan(before);
    await keepUntilStored(kills * 50);
    await way.clickhouse.kill('SIGKILL');
    ingest.process.kill('SIGKILL');
    await ingest.exited;
    await way.clickhouse.restart();
  }
  const last = way.ingest();
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await last.stop();
});

test('killing and wiping the log while the sink lags loses nothing', { tags: ['slow'], timeout: long }, async () => {
  await way.keep(300);
  await expect.poll(() => way.publisher.messagesInFlight, patience).toBe(0);
  await way.nats.kill('SIGKILL');
  await way.keep(100);
  await way.nats.restart({ isWiped: true });
  await way.keep(100);
  const ingest = way.ingest();
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  for (const isWiped of [true, false, true]) {
    await keepUntilPublishing();
    await way.nats.kill('SIGKILL');
    await way.keep(100);
    await way.nats.restart({ isWiped });
  }
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await ingest.stop();
});

test('a suspended owner whose lease was taken over stores nothing twice when it resumes', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const first = way.ingest('', 'ingest-a', 1);
  await way.keep(100);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  for (let rounds = 0; rounds < 2; rounds++) {
    await keepUntilStored(50 + rounds * 50);
    first.process.kill('SIGSTOP');
    const second = way.ingest('', 'ingest-b', 1);
    await way.keep(200);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    first.process.kill('SIGCONT');
    await way.keep(200);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    await second.stop();
    await way.keep(50);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  }
  await first.stop();
});

test(
  'a frame that is published twice, and a message that is not a frame, change nothing',
  async () => {
    const ingest = way.ingest();
    const nats = await Nats.connect({ url: way.nats.url, name: 'test', installation: defaultInstallation });
    const copies: { subject: string; bytes: Buffer }[] = [];
    const end = nats.subscribe('log.>', ({ subject, bytes }) => copies.push({ subject, bytes: Buffer.from(bytes) }));
    await nats.flush();
    await way.keep(50);
    await expect.poll(() => copies.length, patience).toBeGreaterThan(0);
    end();
    for (const { subject, bytes } of copies) nats.publish(subject, bytes);
    nats.publish(nats.names.subjectOf({ kind: 'click', partition: 0 }), Buffer.from('no frame'));
    nats.publish(nats.names.subjectOf({ kind: 'click', partition: 0 }), Buffer.alloc(0));
    await nats.flush();
    await way.keep(50);
    await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
    await nats.close();
    await ingest.stop();
  },
  long,
);

test(
  'invalid records become dead letters with a reason, and the records beside them are stored',
  async () => {
    const ingest = way.ingest();
    const { dead_letters } = await way.figures();
    const poison = [
      '',
      '{',
      '[[[['.repeat(9_000),
      '{"v":1}',
      '{"v":1,"time":1e400}',
      '"\\ud800"',
      '\\u0000',
      `"${'€'.repeat(70_000)}"`,
    ];
    for (const line of poison) {
      await way.keep(3);
      way.journal.append(way.journal.lane('click', 0), line, { committed: () => undefined, refused: () => undefined });
      await way.keep(3);
    }
    way.journal.append(way.journal.lane('install', 0), '{"v":1}', {
      committed: () => undefined,
      refused: () => undefined,
    });
    const wanted = { ...way.wanted, dead_letters: dead_letters + poison.length + 1 };
    await expect.poll(() => way.figures(), patience).toEqual({ ...wanted, rows: way.kept, distinct: way.kept });
    const reasons = await way.client.query<{ reason: string }>(
      'SELECT DISTINCT reason FROM dead_letters ORDER BY reason',
    );
    expect(reasons.map((row) => row.reason)).toEqual(['bad_field', 'bad_id', 'not_an_object', 'not_json']);
    await ingest.stop();
  },
  long,
);
