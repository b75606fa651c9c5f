import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream, logFill } from '#common/log/log-stream.ts';
import { Nats } from '#common/stores/nats.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import { natsForTest, type TestServer } from '#testing/servers.ts';
import type { Revision } from './checkpoints.ts';
import { LogRoom, type ReadPartition } from './log-room.ts';

const bytesMax = 4_000_000;
const messageBytes = 40_000;
const patience = { timeout: 15_000, interval: 20 };
let server: TestServer;
let nats: Nats;
let partitions: ReadPartition[];
let lines: string[];
let room: LogRoom;
let revisions: Map<number, Revision>;
let isPostgresThere: boolean;
const checkpoints = {
  revision: async (partition: number) => {
    if (!isPostgresThere) throw new PostgresUnavailable(new Error('no answer'));
    return revisions.get(partition);
  },
};

const stampLog = () =>
  keepLogStream(nats, { bytesMax, replicas: 1 }, () => undefined, { isOwner: true, installationId: 'one' });

beforeEach(async () => {
  server = await natsForTest();
  nats = await Nats.connect({ url: server.url, name: 'test', installation: defaultInstallation });
  await keepLogStream(nats, { bytesMax, replicas: 1 }, () => undefined);
  partitions = [];
  lines = [];
  revisions = new Map();
  isPostgresThere = true;
  room = new LogRoom({
    nats,
    time: systemTime,
    partitions: () => partitions,
    checkpoints,
    stampLog,
    log: (line) => lines.push(line),
  });
  room.start();
});
afterEach(async () => {
  room.stop();
  await nats.close();
  await server.stop();
});

/** Fills the log with messages of two partitions in turn. @returns how many messages fit. */
async function fillLog(): Promise<number> {
  for (let taken = 0; ; taken++) {
    const subject = nats.names.subjectOf({ kind: 'click', partition: taken % 2 });
    const answer = await nats.request(subject, Buffer.alloc(messageBytes));
    if (answer?.bytes.toString().includes('"error"') !== false) return taken;
  }
}

/** Sequences of the messages of a partition that are still in the log. */
async function sequencesOf(partition: number): Promise<number[]> {
  const found: number[] = [];
  for (let sequence = 1; sequence <= ((await logFill(nats))?.lastSequence ?? 0); sequence++) {
    const question = Buffer.from(JSON.stringify({ seq: sequence }));
    const answer = JSON.parse(String((await nats.request('$JS.API.STREAM.MSG.GET.log', question))?.bytes));
    if (answer.message?.subject === `log.click.${partition}`) found.push(answer.message.seq);
  }
  return found;
}

test('a lost log that a publisher recreated is stamped again while ingest runs', async () => {
  await expect.poll(async () => (await logFill(nats))?.installationId, patience).toBe('one');
  await nats.request(nats.names.api('STREAM.DELETE'));
  await keepLogStream(nats, { bytesMax, replicas: 1 }, () => undefined);
  await expect.poll(async () => (await logFill(nats))?.installationId, patience).toBe('one');
});

test('a log full of stored records accepts more, and keeps the newest for replay', async () => {
  const taken = await fillLog();
  await expect.poll(() => room.refusal, patience).toContain('full');
  partitions = [0, 1].map((partition) => ({ partition, committedSequence: taken }));
  await expect.poll(() => room.refusal, patience).toBe('');
  await expect.poll(async () => (await logFill(nats))?.bytes, patience).toBeLessThan(bytesMax * 0.75);
  const { counters } = room;
  const left = [...(await sequencesOf(0)), ...(await sequencesOf(1))].sort((a, b) => a - b);
  expect(left).toEqual(Array.from({ length: left.length }, (_, n) => taken - left.length + 1 + n));
  expect(left.length * messageBytes).toBeGreaterThan(bytesMax * 0.6);
  expect(counters.purged_messages).toBe(taken - left.length);
  expect(lines).toEqual([expect.stringContaining('the log is full'), 'the log accepts records again']);
});

test('unstored records are never purged, however full the log is', async () => {
  const taken = await fillLog();
  partitions = [
    { partition: 0, committedSequence: 21 },
    { partition: 1, committedSequence: undefined },
  ];
  await expect.poll(async () => (await sequencesOf(0))[0], patience).toBe(23);
  expect(await sequencesOf(1)).toHaveLength(Math.floor(taken / 2));
});

test('stored records are not purged while a replay is requested or Postgres does not answer', async () => {
  const taken = await fillLog();
  isPostgresThere = false;
  partitions = [0, 1].map((partition) => ({ partition, committedSequence: taken }));
  await expect.poll(() => room.refusal, patience).toContain('full');
  expect(room.counters.purges).toBe(0);
  revisions.set(0, { replay_from: 1, days_from: null, days_to: null });
  revisions.set(1, { replay_from: null, days_from: 1, days_to: 2 });
  isPostgresThere = true;
  await expect.poll(() => room.refusal, patience).toBe('');
  expect(await sequencesOf(0)).toHaveLength(Math.ceil(taken / 2));
  expect(await sequencesOf(1)).not.toHaveLength(Math.floor(taken / 2));
});

test('the oldest stored records are purged first, even behind those of a partition that can’t be purged', async () => {
  const taken = await fillLog();
  partitions = [{ partition: 1, committedSequence: taken }];
  await expect.poll(async () => (await logFill(nats))?.bytes, patience).toBeLessThan(bytesMax * 0.75);
  expect(await sequencesOf(0)).toHaveLength(Math.ceil(taken / 2));
  const left = await sequencesOf(1);
  expect(left.at(-1)).toBe(taken % 2 === 0 ? taken : taken - 1);
  expect(left.length).toBeGreaterThan(taken / 8);
});

test('a log that was full while ingest lagged keeps what fits once ingest has caught up', async () => {
  const taken = await fillLog();
  partitions = [
    { partition: 0, committedSequence: 1 },
    { partition: 1, committedSequence: 2 },
    // This partition has no messages, so purging it frees nothing.
    { partition: 2, committedSequence: taken },
  ];
  await expect.poll(() => room.counters.purges, patience).toBeGreaterThanOrEqual(4);
  partitions = [0, 1, 2].map((partition) => ({ partition, committedSequence: taken }));
  await expect.poll(async () => (await logFill(nats))?.bytes, patience).toBeLessThan(bytesMax * 0.75);
  expect((await logFill(nats))?.bytes).toBeGreaterThan(bytesMax * 0.6);
});

/** Replaces the room by one that polls when the test says so. */
function polledRoom() {
  room.stop();
  const clock = { elapsed: 0 };
  let poll: () => void = () => undefined;
  const time: Time = {
    ...systemTime,
    elapsed: () => clock.elapsed,
    every: (_, callback) => {
      poll = callback;
      return {};
    },
    clear: () => undefined,
  };
  room = new LogRoom({ nats, time, partitions: () => partitions, checkpoints, stampLog, log: () => undefined });
  room.start();
  const pollOnce = async () => {
    const { fill } = room;
    poll();
    await expect.poll(() => room.fill, patience).not.toBe(fill);
  };
  return { clock, pollOnce };
}

test('sequences of a deleted stream purge nothing of its replacement', async () => {
  const { clock, pollOnce } = polledRoom();
  const taken = await fillLog();
  await pollOnce();
  await nats.request(nats.names.api('STREAM.DELETE'));
  await keepLogStream(nats, { bytesMax, replicas: 1 }, () => undefined);
  expect(await fillLog()).toBe(taken);
  partitions = [0, 1].map((partition) => ({ partition, committedSequence: taken }));
  for (let polls = 0; polls < 5; polls++) await pollOnce();
  expect(room.counters.purges).toBe(0);
  // By now the readers read the new stream, and their sequences belong to it.
  clock.elapsed += 10_000;
  await pollOnce();
  await expect.poll(() => room.counters.purges, patience).toBeGreaterThan(0);
});

test('a sequence that the log has not reached belongs to another log, and purges nothing', async () => {
  const { pollOnce } = polledRoom();
  const taken = await fillLog();
  partitions = [0, 1].map((partition) => ({ partition, committedSequence: taken + 1 }));
  for (let polls = 0; polls < 5; polls++) await pollOnce();
  expect(room.counters.purges).toBe(0);
  partitions = [0, 1].map((partition) => ({ partition, committedSequence: taken }));
  await pollOnce();
  await expect.poll(() => room.counters.purges, patience).toBeGreaterThan(0);
});
