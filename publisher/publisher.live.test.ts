/** Tests the publisher with real journals and a real NATS server. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Journal } from '#common/journal/journal.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { encodeFrame, readFrame } from '#common/log/frame.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { ensureLogStream, keepLogStream } from '#common/log/log-stream.ts';
import { decodeMarksRequest, encodeAnnouncements, machineNameTaken } from '#common/log/marks.ts';
import { Nats } from '#common/stores/nats.ts';
import { natsForTest, type TestServer } from '#testing/servers.ts';
import { Publisher } from './publisher.ts';

let root: string;
let server: TestServer;
let nats: Nats;
let publisher: Publisher;
let damage: string[];
let lines: string[];
/** Message ids and frame numbers in the order in which the log received them. */
let seen: { id: string; producer_id: string; frame_no: number }[];
/** How far the publisher's clock is ahead. */
let aheadMs = 0;
/** The time that the test has added to its clock. */
let passedMs = 0;
const time = {
  ...nodeSystem.time,
  now: () => nodeSystem.time.now() + aheadMs,
  elapsed: () => nodeSystem.time.elapsed() + passedMs,
};
const log = { bytesMax: 100_000_000, replicas: 1 };
const patience = { timeout: 10_000, interval: 20 };

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'publisher-'));
  mkdirSync(join(root, 'edge-0'));
  await (await nodeSystem.locks.take(join(root, 'edge-0')))?.release();
  server = await natsForTest();
  nats = await Nats.connect({ url: server.url, name: 'test', installation: defaultInstallation });
  [aheadMs, passedMs] = [0, 0];
  damage = [];
  lines = [];
  seen = [];
  nats.subscribe('log.>', (message) => {
    for (let at = 0; at < message.bytes.length; ) {
      const read = readFrame(message.bytes, at);
      if (read.state !== 'frame') return;
      const { producer_id, frame_no } = read.header;
      seen.push({ id: message.header('Nats-Msg-Id'), producer_id, frame_no });
      at += read.bytes;
    }
  });
  publisher = new Publisher({
    root,
    machine: 'test',
    nats,
    system: { ...nodeSystem, time },
    ensureLog: () => keepLogStream(nats, log, () => undefined),
    onDamage: (_, reason) => damage.push(reason),
    log: (line) => lines.push(line),
  });
});
afterEach(async () => {
  await publisher.stop();
  await nats.close();
  await server.stop();
  rmSync(root, { recursive: true });
});

const producer = (n: number) => String(n).padStart(26, '0');

const producersIn = (slot: string) => readdirSync(join(root, slot)).filter((name) => !name.startsWith('.'));

/** A journal of a producer whose process is dead. */
function deadJournal(
  producer_id: string,
  frames: number,
  change: (bytes: Buffer) => Buffer = (bytes) => bytes,
  { firstFrame = 1, segment = '00000001.seg' } = {},
): void {
  const folder = join(root, 'edge-0', producer_id);
  mkdirSync(folder, { recursive: true });
  const bytes = Array.from({ length: frames }, (_, n) => {
    const into = Buffer.alloc(200);
    const header = {
      kind: 'click',
      partition: 0,
      producer_id,
      frame_no: firstFrame + n,
      records: 1,
      written_at: Date.now(),
    } as const;
    return into.subarray(0, encodeFrame(into, 0, header, `{"n":${n}}\n`));
  });
  writeFileSync(join(folder, segment), change(Buffer.concat(bytes)));
}

function commit(
  producer_id: string,
  mark: number,
  committed_ago = 0,
  ahead: readonly (readonly [number, number])[] = [],
  installation_id = '',
): void {
  const lanes = [{ producer_id, kind: 'click' as const, partition: 0, mark, ahead }];
  for (const bytes of encodeAnnouncements({ installation_id, partition: 0, committed_ago, lanes }))
    nats.publish(nats.names.marks, bytes);
}

test('journals of dead producers are published, and deleted only once the sink has committed them', async () => {
  deadJournal(producer(1), 300);
  deadJournal(producer(2), 5, (bytes) => bytes.subarray(0, bytes.length - 1));
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(304);
  expect(seen.filter((one) => one.producer_id === producer(1)).map((one) => one.frame_no)).toEqual(
    Array.from({ length: 300 }, (_, n) => n + 1),
  );
  commit(producer(1), 299);
  commit(producer(2), 4);
  await expect.poll(() => producersIn('edge-0'), patience).toEqual([producer(1)]);
  expect(publisher.counters.torn_bytes).toBeGreaterThan(0);
  commit(producer(1), 300);
  await expect.poll(() => producersIn('edge-0'), patience).toEqual([]);
});

test('around a damaged frame, everything is published; the frame is announced as lost, and its file is kept', async () => {
  const lost: unknown[] = [];
  nats.subscribe(nats.names.marksRequest, ({ bytes }) => {
    lost.push(...(decodeMarksRequest(bytes)?.floors ?? []).flatMap((floor) => floor.lost ?? []));
  });
  deadJournal(producer(1), 10, (bytes) => bytes.fill(0xff, 250, 252));
  deadJournal(producer(2), 10);
  const writtenBy = Date.now();
  await publisher.start();
  await expect.poll(() => new Set(seen.map((one) => `${one.producer_id} ${one.frame_no}`)).size, patience).toBe(19);
  await expect.poll(() => damage, patience).toHaveLength(1);
  expect(publisher.damaged.map((one) => one.producer_id)).toEqual([producer(1)]);
  const announced = () => {
    passedMs += 11_000;
    return lost[0];
  };
  await expect.poll(announced, { ...patience, interval: 600 }).toEqual([4, 4, 1]);
  // Until the sink has counted the frame, the statistics are not complete.
  commit(producer(1), 3, 0, [[5, 10]]);
  commit(producer(2), 10);
  await expect.poll(() => producersIn('edge-0'), patience).toEqual([producer(1)]);
  expect(publisher.committedTo).toBeLessThanOrEqual(writtenBy);
  commit(producer(1), 10);
  await expect.poll(() => publisher.committedTo, patience).toBeGreaterThan(writtenBy);
  expect(producersIn('edge-0')).toEqual([producer(1)]);
  expect(publisher.damaged).toHaveLength(1);
});

test('a dead journal whose last frame is damaged is kept until the sink has counted that frame as lost', async () => {
  const lost: unknown[] = [];
  nats.subscribe(nats.names.marksRequest, ({ bytes }) => {
    lost.push(...(decodeMarksRequest(bytes)?.floors ?? []).flatMap((floor) => floor.lost ?? []));
  });
  deadJournal(producer(1), 10, (bytes) => bytes.fill(0xff, bytes.length - 4, bytes.length - 2));
  deadJournal(producer(2), 10);
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(19);
  commit(producer(1), 9);
  commit(producer(2), 10);
  await expect.poll(() => producersIn('edge-0'), patience).not.toContain(producer(2));
  const announced = () => {
    passedMs += 11_000;
    return lost[0];
  };
  await expect.poll(announced, { ...patience, interval: 600 }).toEqual([10, 10, 1]);
  expect(producersIn('edge-0')).toEqual([producer(1)]);
  commit(producer(1), 10);
  await expect.poll(() => producersIn('edge-0'), patience).toEqual([]);
});

test('after the log is wiped, everything that the sink has not committed is published again', async () => {
  deadJournal(producer(1), 100);
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(100);
  commit(producer(1), 40);
  await nats.flush();
  await server.kill('SIGKILL');
  seen = [];
  await server.restart({ isWiped: true });
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(160);
  expect(seen.map((one) => one.frame_no)).toEqual(Array.from({ length: 60 }, (_, n) => n + 41));
});

test('frames around damage are published again when the log has lost them, and the damage is reported once', async () => {
  deadJournal(producer(1), 10, (bytes) => bytes.fill(0xff, bytes.length - 250, bytes.length - 248));
  await publisher.start();
  const numbers = () => [...new Set(seen.map((one) => one.frame_no))].sort((a, b) => a - b);
  await expect.poll(numbers, patience).toHaveLength(9);
  const sent = numbers();
  await expect.poll(() => damage, patience).toHaveLength(1);
  await server.kill('SIGKILL');
  seen = [];
  await server.restart({ isWiped: true });
  await expect.poll(numbers, patience).toEqual(sent);
  expect(damage).toHaveLength(1);
  expect(publisher.damaged).toHaveLength(1);
});

test('frames that the sink has skipped are published again under another id', async () => {
  deadJournal(producer(1), 10);
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
  passedMs = 61_000;
  commit(producer(1), 7, 31_000);
  await nats.flush();
  expect(publisher.counters.skipped).toBe(0);
  commit(producer(1), 7);
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(13);
  expect(seen.slice(10).map((one) => one.frame_no)).toEqual([8, 9, 10]);
  expect(new Set(seen.slice(10).map((one) => one.id))).toEqual(new Set([`${producer(1)}:click:0:8-10:1`]));
  expect(publisher.counters.duplicates).toBe(0);
});

test('frames that the sink has skipped are published again, although the wall clock was ahead when the log took them', async () => {
  aheadMs = 86_400_000;
  deadJournal(producer(1), 10);
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
  [aheadMs, passedMs] = [0, 61_000];
  commit(producer(1), 7);
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(13);
});

test('with a full log the publisher waits with a bounded window, and continues without intervention', async () => {
  const full = { bytesMax: 20_000, replicas: 1 };
  expect(await ensureLogStream(nats, full, {})).toEqual({ state: 'ready', changed: [], installationId: '' });
  log.bytesMax = full.bytesMax;
  deadJournal(producer(1), 1_000);
  await publisher.start();
  await expect.poll(() => publisher.counters.failures, patience).toBeGreaterThan(1);
  expect(publisher.messagesInFlight).toBeLessThanOrEqual(128);
  expect(publisher.refusal).toBe('maximum bytes exceeded');
  const before = publisher.counters.acknowledged;
  expect(before).toBeGreaterThan(10);
  await nats.request('$JS.API.STREAM.PURGE.log');
  await expect.poll(() => publisher.counters.acknowledged, patience).toBeGreaterThan(before + 10);
  expect(lines[0]).toContain('maximum bytes exceeded');
  expect(lines[1]).toBe('the log accepts records again');
  log.bytesMax = 100_000_000;
});

test('a journal is published while it is written, and the time up to which everything is committed is reported', async () => {
  const journal = await Journal.open({ root, slot: 'edge-1', segmentBytes: 500, bytesMax: 1e9, sync: 'after_answer' });
  await publisher.start();
  const lane = journal.lane('event', 3);
  for (let n = 0; n < 50; n++) {
    await new Promise<void>((done, fail) => {
      journal.append(lane, `{"n":${n}}`, { committed: done, refused: () => fail(new Error('refused')) });
    });
  }
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(50);
  const before = Date.now();
  await expect.poll(() => publisher.committedTo, patience).toBeLessThan(before);
  const lanes = [{ producer_id: journal.producerId, kind: 'event' as const, partition: 3, mark: 50, ahead: [] }];
  for (const bytes of encodeAnnouncements({ installation_id: '', partition: 3, committed_ago: 0, lanes }))
    nats.publish(nats.names.marks, bytes);
  await expect.poll(() => publisher.committedTo, patience).toBeGreaterThan(before);
  expect(publisher.counters.segments_deleted).toBeGreaterThan(5);
  await journal.close();
  await expect.poll(() => producersIn('edge-1'), patience).toEqual([]);
});

test('records that the log takes without ever acknowledging them are published again', async () => {
  const isAcknowledging = async (isOn: boolean) => {
    const { config } = JSON.parse((await nats.request(nats.names.api('STREAM.INFO')))?.bytes.toString() ?? '{}');
    const update = Buffer.from(JSON.stringify({ ...config, no_ack: !isOn }));
    const answer = await nats.request(nats.names.api('STREAM.UPDATE'), update);
    expect(JSON.parse(answer?.bytes.toString() ?? '{}').config.no_ack ?? false).toBe(!isOn);
  };
  await publisher.start();
  await isAcknowledging(false);
  deadJournal(producer(1), 10);
  await expect.poll(() => seen.length, patience).toBe(10);
  await isAcknowledging(true);
  expect(publisher.counters.acknowledged).toBe(0);
  passedMs = 10_000;
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
});

test('the segment of a live process is not deleted when its lock file is deleted', async () => {
  const journal = await Journal.open({ root, slot: 'edge-1', segmentBytes: 1e6, bytesMax: 1e9, sync: 'after_answer' });
  const lane = journal.lane('click', 0);
  const append = () =>
    new Promise<void>((done, fail) => {
      journal.append(lane, '{}', { committed: done, refused: () => fail(new Error('refused')) });
    });
  await append();
  rmSync(join(root, 'edge-1', '.lock'));
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(1);
  commit(journal.producerId, 1);
  // The lock is back, and several scans have seen the slot.
  await expect.poll(() => nodeSystem.locks.stateOf(join(root, 'edge-1')), patience).toBe('held');
  for (let n = 2; n <= 20; n++) {
    await append();
    await expect.poll(() => publisher.counters.acknowledged, patience).toBe(n);
    commit(journal.producerId, n);
  }
  expect(publisher.counters.segments_deleted).toBe(0);
  expect(journal.counters.deleted_segments).toBe(0);
  await journal.close();
});

test('an idle live process leaves nothing on disk once it is committed', async () => {
  const ticks: (() => void)[] = [];
  const every = (_: number, tick: () => void) => {
    ticks.push(tick);
    return {};
  };
  const time = { ...nodeSystem.time, every, clear: () => undefined };
  const options = { root, slot: 'edge-1', segmentBytes: 1e6, bytesMax: 1e9, sync: 'after_answer' } as const;
  const journal = await Journal.open(options, { ...nodeSystem, time });
  const files = () =>
    readdirSync(join(root, 'edge-1', journal.producerId)).map((name) => [
      name,
      statSync(join(root, 'edge-1', journal.producerId, name)).size,
    ]);
  await publisher.start();
  for (const segment of [2, 3]) {
    await new Promise<void>((done, fail) => {
      const waiter = { committed: done, refused: () => fail(new Error('refused')) };
      journal.append(journal.lane('click', 0), '{}', waiter);
    });
    const acknowledged = segment - 1;
    await expect.poll(() => publisher.counters.acknowledged, patience).toBe(acknowledged);
    commit(journal.producerId, acknowledged);
    for (let n = 0; n < 40; n++) for (const tick of ticks) tick();
    await expect.poll(files, patience).toEqual([[`0000000${segment}.seg`, 0]]);
  }
  await journal.close();
  await expect.poll(() => producersIn('edge-1'), patience).toEqual([]);
});

test('a segment whose frames are all committed is deleted, even above a mark that has stayed behind', async () => {
  deadJournal(producer(1), 10, undefined, { firstFrame: 8, segment: '00000002.seg' });
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
  commit(producer(1), 3, Date.now(), [[8, 16]]);
  commit(producer(1), 3, Date.now(), [[7, 17]]);
  await expect.poll(() => producersIn('edge-0'), patience).toEqual([]);
});

test('a publisher reports the oldest frame that it still has of each lane', async () => {
  deadJournal(producer(1), 10, undefined, { firstFrame: 8, segment: '00000002.seg' });
  const floors: unknown[] = [];
  nats.subscribe(nats.names.marksRequest, ({ bytes }) => floors.push(...(decodeMarksRequest(bytes)?.floors ?? [])));
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
  passedMs = 10_000;
  await expect
    .poll(() => floors)
    .toContainEqual({
      ...{ producer_id: producer(1), kind: 'click', partition: 0, floor: 8 },
    });
});

test('marks of another installation delete nothing, before and after the owner of the log is known', async () => {
  deadJournal(producer(1), 10);
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
  commit(producer(1), 10, Date.now(), [], 'other');
  await nats.flush();
  const id = await keepLogStream(nats, log, () => undefined, { isOwner: true, installationId: 'ours' });
  commit(producer(1), 10, Date.now(), [], 'other');
  await nats.flush();
  deadJournal(producer(2), 1);
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(11);
  expect(producersIn('edge-0')).toEqual([producer(1), producer(2)]);
  await expect
    .poll(() => {
      commit(producer(1), 10, Date.now(), [], id);
      return producersIn('edge-0');
    }, patience)
    .toEqual([producer(2)]);
});

test('a publisher that stops reports how far its journals are committed by then', async () => {
  const reports: number[] = [];
  const end = nats.subscribe(nats.names.progress, ({ bytes }) => {
    reports.push(JSON.parse(bytes.toString()).committed_to);
  });
  deadJournal(producer(1), 10);
  await publisher.start();
  await expect.poll(() => publisher.counters.acknowledged, patience).toBe(10);
  const before = publisher.committedTo;
  commit(producer(1), 10);
  await expect.poll(() => publisher.committedTo, patience).toBeGreaterThan(before);
  const { committedTo } = publisher;
  await publisher.stop();
  await nats.flush();
  end();
  expect(reports.at(-1)).toBeGreaterThanOrEqual(committedTo);
});

test('a publisher is notified by the reply to its report if other journals report under its name', async () => {
  let isTaken = false;
  const reports: object[] = [];
  const second = new Publisher({
    root,
    machine: 'test',
    holder: 'second',
    onNameTaken: () => {
      isTaken = true;
    },
    nats,
    system: { ...nodeSystem, time },
    ensureLog: () => keepLogStream(nats, log, () => undefined),
    onDamage: () => undefined,
    log: () => undefined,
  });
  nats.subscribe(nats.names.progress, ({ bytes, reply }) => {
    reports.push(JSON.parse(bytes.toString()));
    nats.publish(reply, Buffer.from(reports.length < 2 ? 'anything else' : machineNameTaken));
  });
  await second.start();
  await expect.poll(() => isTaken, patience).toBe(true);
  expect(reports[0]).toMatchObject({ machine: 'test', holder: 'second' });
  await second.stop();
});
