import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { type FrameHeader, frameRecordsMax, payloadOf, readFrame } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import { systemTime } from '#common/time.ts';
import { type Disk, nodeDisk } from './disk.ts';
import { Journal, type JournalOptions } from './journal.ts';
import { Segment } from './segment.ts';
import { nodeSystem, type System } from './system.ts';

/** What a journal does every second, it does every 50 ms here. */
const hurried: System = {
  ...nodeSystem,
  time: { ...systemTime, every: (ms, callback) => systemTime.every(ms / 20, callback) },
};

const folders: string[] = [];
const open: Journal[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const journal of open.splice(0)) await journal.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function root(): string {
  const folder = mkdtempSync(join(tmpdir(), 'journal-'));
  folders.push(folder);
  return folder;
}

async function journalOf(
  options: Partial<JournalOptions> & { root: string },
  system: System = hurried,
): Promise<Journal> {
  const defaults = {
    slot: 'edge-0',
    segmentBytes: 1_000_000,
    bytesMax: 100_000_000,
    sync: 'after_answer',
  } as const;
  const journal = await Journal.open({ ...defaults, ...options }, system);
  open.push(journal);
  return journal;
}

/** Appends and waits for the outcome. */
function append(
  journal: Journal,
  json: string,
  partition = 0,
  kind: RecordKind = 'click',
): Promise<'committed' | 'refused'> {
  return new Promise((done) => {
    journal.append(journal.lane(kind, partition), json, {
      committed: () => done('committed'),
      refused: () => done('refused'),
    });
  });
}

interface Stored {
  header: FrameHeader;
  lines: string[];
}

function stored(folder: string): Stored[] {
  const frames: Stored[] = [];
  for (const producer of readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .sort()) {
    for (const name of readdirSync(join(folder, producer)).sort()) {
      const bytes = readFileSync(join(folder, producer, name));
      for (let at = 0; at < bytes.length; ) {
        const read = readFrame(bytes, at);
        if (read.state !== 'frame') throw new Error(`${read.state} at ${at} of ${name}`);
        frames.push({ header: read.header, lines: payloadOf(bytes, read.header, at).toString().trimEnd().split('\n') });
        at += read.bytes;
      }
    }
  }
  return frames;
}

test('what was committed is in the file, in order, one frame per turn and lane', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder });
  await Promise.all([append(journal, '{"n":1}'), append(journal, '{"n":2}'), append(journal, '{"n":3}', 7)]);
  expect(await append(journal, '{"n":4}')).toBe('committed');
  expect(await append(journal, '{"n":"ü😀"}', 0, 'event')).toBe('committed');
  const frames = stored(join(folder, 'edge-0'));
  expect(frames.map(({ header, lines }) => [header.partition, header.frame_no, header.records, lines])).toEqual([
    [0, 1, 2, ['{"n":1}', '{"n":2}']],
    [7, 1, 1, ['{"n":3}']],
    [0, 2, 1, ['{"n":4}']],
    [0, 1, 1, ['{"n":"ü😀"}']],
  ]);
  expect(new Set(frames.map((frame) => frame.header.producer_id))).toEqual(new Set([journal.producerId]));
});

test('a record around bytes is between those before and after it, unchanged', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder });
  const lane = journal.lane('event', 0);
  const verdicts: string[] = [];
  const waiter = { committed: () => verdicts.push('committed'), refused: () => verdicts.push('refused') };
  const body = Buffer.from('{"text":"ü😀"}').toString('latin1');
  journal.append(lane, '{"n":1}', waiter);
  journal.appendAround(lane, '{"ä":', body, '}', waiter);
  journal.append(lane, '{"n":2}', waiter);
  journal.appendAround(lane, '', 'x'.repeat(262_144), '', waiter);
  await expect.poll(() => verdicts).toHaveLength(4);
  expect(verdicts).toEqual(['committed', 'committed', 'committed', 'refused']);
  expect(stored(join(folder, 'edge-0')).map(({ header, lines }) => [header.frame_no, header.records, lines])).toEqual([
    [1, 1, ['{"n":1}']],
    [2, 1, ['{"ä":{"text":"ü😀"}}']],
    [3, 1, ['{"n":2}']],
  ]);
});

test('records around bytes share frames of limited size, in order and unchanged', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder });
  const [lane, other] = [journal.lane('event', 0), journal.lane('event', 1)];
  let committed = 0;
  const waiter = { committed: () => committed++, refused: () => expect.unreachable() };
  const texts = Array.from({ length: 1_500 }, (_, n) => `{"n":${n},"text":"${'ü'.repeat((n * 37) % 400)}"}`);
  for (const [n, text] of texts.entries()) {
    const to = n % 100 < 90 ? lane : other;
    if (n % 150 === 7) journal.append(to, text, waiter);
    else journal.appendAround(to, '', Buffer.from(text).toString('latin1'), '', waiter);
  }
  journal.appendAround(lane, '', 'x'.repeat(100_000), '', waiter);
  for (let n = 0; n < 600; n++) journal.appendAround(lane, '', '1', '', waiter);
  await expect.poll(() => committed).toBe(2_101);
  const frames = stored(join(folder, 'edge-0'));
  const linesOf = (partition: number) =>
    frames.filter(({ header }) => header.partition === partition).flatMap(({ lines }) => lines);
  const sentTo = (isOther: boolean) => texts.filter((_, n) => n % 100 >= 90 === isOther);
  expect(linesOf(0)).toEqual([...sentTo(false), 'x'.repeat(100_000), ...Array(600).fill('1')]);
  expect(linesOf(1)).toEqual(sentTo(true));
  for (const partition of [0, 1]) {
    const numbers = frames.filter(({ header }) => header.partition === partition).map(({ header }) => header.frame_no);
    expect(numbers).toEqual(numbers.map((_, at) => at + 1));
  }
  for (const { header, lines } of frames) {
    expect(header.records).toBe(lines.length);
    expect(header.records).toBeLessThanOrEqual(500);
    if (lines.length > 1) expect(header.payloadBytes).toBeLessThanOrEqual(32_768);
  }
  expect(frames.length).toBeLessThan(100);
});

test('a turn with more than a frame holds becomes several frames without a gap', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder, segmentBytes: 300_000 });
  const line = `{"text":"${'€'.repeat(1000)}"}`;
  const verdicts = await Promise.all(Array.from({ length: 1200 }, () => append(journal, line)));
  expect(new Set(verdicts)).toEqual(new Set(['committed']));
  await Promise.all(Array.from({ length: 1200 }, () => append(journal, '{}')));
  const frames = stored(join(folder, 'edge-0'));
  expect(frames.map((frame) => frame.header.frame_no)).toEqual(frames.map((_, index) => index + 1));
  expect(frames.flatMap((frame) => frame.lines)).toHaveLength(2400);
  expect(Math.max(...frames.map((frame) => frame.header.payloadBytes))).toBeLessThanOrEqual(262_144 - 64);
  expect(Math.max(...frames.map((frame) => frame.header.records))).toBe(500);
});

test('each start is a new producer, and sorts after the earlier ones', async () => {
  const folder = root();
  const first = await journalOf({ root: folder });
  await append(first, '{"n":1}');
  await first.close();
  open.pop();
  const second = await journalOf({ root: folder });
  await append(second, '{"n":2}');
  expect(second.producerId > first.producerId).toBe(true);
  expect(stored(join(folder, 'edge-0')).map((frame) => frame.header.frame_no)).toEqual([1, 1]);
});

test('a process waits for the one before it, which still has the slot', async () => {
  const folder = root();
  const first = await journalOf({ root: folder });
  const second = journalOf({ root: folder, slotWaitMs: 60_000 });
  await append(first, '{"n":1}');
  await first.close();
  await append(await second, '{"n":2}');
  expect(stored(join(folder, 'edge-0'))).toHaveLength(2);
});

test('a second process on one slot is refused, and takes it once the first has released it', async () => {
  const folder = root();
  const first = await journalOf({ root: folder });
  await expect(journalOf({ root: folder })).rejects.toThrow('belongs to another process');
  await first.close();
  open.splice(0);
  await journalOf({ root: folder });
});

test('a full journal refuses, and accepts records again once space was freed', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder, bytesMax: 2_000, segmentBytes: 500 });
  const line = `{"text":"${'x'.repeat(500)}"}`;
  const verdicts: string[] = [];
  for (let n = 0; n < 8; n++) verdicts.push(await append(journal, line));
  expect(verdicts.slice(0, 3)).toEqual(['committed', 'committed', 'committed']);
  expect(verdicts.at(-1)).toBe('refused');
  const producer = join(folder, 'edge-0', journal.producerId);
  for (const name of readdirSync(producer).sort().slice(0, -1)) rmSync(join(producer, name));
  await expect.poll(() => append(journal, line), { timeout: 5_000 }).toBe('committed');
});

test('a record that is too long is refused and its neighbours are written', async () => {
  const journal = await journalOf({ root: root() });
  const verdicts = await Promise.all([
    append(journal, '{}'),
    append(journal, 'x'.repeat(80_001)),
    append(journal, '{}'),
  ]);
  expect(verdicts).toEqual(['committed', 'refused', 'committed']);
});

test('with before_answer a record is answered only after an fdatasync', async () => {
  const journal = await journalOf({ root: root(), sync: 'before_answer' });
  const verdicts = await Promise.all(Array.from({ length: 10 }, () => append(journal, '{}')));
  expect(new Set(verdicts)).toEqual(new Set(['committed']));
  expect(journal.counters.syncs).toBeGreaterThan(0);
});

test('with before_answer a record is committed only after the sync of its own segment, even if the next one was begun meanwhile', async () => {
  const paths = new Map<number, string>();
  const begun: { name: string; end: () => void }[] = [];
  const synced: string[] = [];
  let isHeld = true;
  const disk: Disk = {
    ...nodeSystem.disk,
    create: (path) => {
      const file = nodeSystem.disk.create(path);
      paths.set(file, basename(path));
      return file;
    },
    sync: (file) => {
      const name = paths.get(file) ?? '';
      return new Promise((done) => {
        const end = () => {
          synced.push(name);
          done();
        };
        if (isHeld) begun.push({ name, end });
        else end();
      });
    },
  };
  const journal = await journalOf({ root: root(), sync: 'before_answer', segmentBytes: 10 }, { ...hurried, disk });
  const endNext = async (name: string) => {
    await expect.poll(() => begun[0]?.name).toBe(name);
    begun.shift()?.end();
  };
  const first = append(journal, '{"n":1}');
  await expect.poll(() => begun).toHaveLength(1);
  let syncedBefore: string[] = [];
  const second = new Promise<void>((done, fail) => {
    const committed = () => {
      syncedBefore = [...synced];
      done();
    };
    journal.append(journal.lane('click', 0), '{"n":2}', { committed, refused: fail });
  });
  await expect.poll(() => journal.counters.writes).toBe(2);
  await endNext('00000001.seg');
  expect(await first).toBe('committed');
  // Now the first segment, already retired, is synced once more. The third begins before that is done.
  await expect.poll(() => begun).toHaveLength(1);
  const third = append(journal, '{"n":3}');
  await expect.poll(() => journal.counters.writes).toBe(3);
  isHeld = false;
  for (const { end } of begun.splice(0)) end();
  await second;
  expect(syncedBefore).toContain('00000002.seg');
  expect(await third).toBe('committed');
});

test('records are refused while nothing can be written, and are later written under a new producer', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder, segmentBytes: 10 });
  await append(journal, '{"n":1}');
  const before = journal.producerId;
  await appendToFullDisk(journal);
  await expect.poll(() => append(journal, '{"n":3}'), { timeout: 5_000 }).toBe('committed');
  expect(journal.producerId > before).toBe(true);
  expect(stored(join(folder, 'edge-0')).map((frame) => frame.header.frame_no)).toEqual([1, 1]);
});

test('a journal that gave up recovers without an append, so that callers that check isWritable first notice', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder, segmentBytes: 10 });
  await append(journal, '{"n":1}');
  await appendToFullDisk(journal);
  expect(journal.isWritable).toBe(false);
  await expect.poll(() => journal.isWritable, { timeout: 5_000 }).toBe(true);
  expect(await append(journal, '{"n":3}')).toBe('committed');
});

test('a journal on a disk with room for names but not for data takes no record, and says so once, until there is room', async () => {
  const lines: string[] = [];
  const journal = await journalOf({ root: root(), segmentBytes: 1_000, log: (line) => void lines.push(line) });
  await append(journal, '{"n":1}');
  const write = vi.spyOn(nodeDisk, 'write').mockImplementation(() => {
    throw new Error('ENOSPC');
  });
  expect(await append(journal, '{"n":2}')).toBe('refused');
  const attempts = () => journal.counters.write_failures;
  const before = attempts();
  await expect.poll(attempts, { timeout: 10_000 }).toBeGreaterThan(before + 1);
  expect(journal.isWritable).toBe(false);
  write.mockRestore();
  await expect.poll(() => journal.isWritable, { timeout: 5_000 }).toBe(true);
  expect(lines).toEqual([
    expect.stringContaining('cannot be written, so records are refused: Error: ENOSPC'),
    expect.stringContaining('can be written again'),
  ]);
});

test('a journal on a full disk keeps no segment open that it has given up, so that deleting it makes room', async () => {
  const create = vi.spyOn(nodeDisk, 'create');
  const close = vi.spyOn(nodeDisk, 'close');
  const journal = await journalOf({ root: root(), segmentBytes: 1_000 });
  await append(journal, '{"n":1}');
  await expect.poll(() => journal.counters.syncs, { timeout: 5_000 }).toBe(1);
  const write = vi.spyOn(nodeDisk, 'write').mockImplementation(() => {
    throw new Error('ENOSPC');
  });
  expect(await append(journal, '{"n":2}')).toBe('refused');
  const opened = () => create.mock.results.map(({ value }) => Number(value));
  const closed = () => close.mock.calls.map(([file]) => file);
  const first = opened()[0];
  await expect.poll(closed, { timeout: 5_000 }).toContain(first);
  await expect.poll(() => opened().length - closed().length, { timeout: 5_000 }).toBeLessThanOrEqual(1);
  for (const spy of [create, close, write]) spy.mockRestore();
});

test('a new producer never receives frames that were numbered for the one before, even if it can begin in the middle of a turn', async () => {
  const folder = root();
  let tick = () => {};
  let passedMs = 0;
  const time = {
    ...systemTime,
    elapsed: () => passedMs,
    every: (_: number, callback: () => void) => {
      tick = callback;
      return {};
    },
  };
  const journal = await journalOf({ root: folder, segmentBytes: 10 }, { ...nodeSystem, time });
  await append(journal, '{"n":1}');
  await appendToFullDisk(journal);
  // More than a frame holds: the first frame of this turn is numbered before the tick, the second after it.
  const verdicts = Array.from({ length: frameRecordsMax + 1 }, (_, n) => append(journal, `{"late":${n}}`));
  passedMs = 10_000;
  tick();
  expect(new Set(await Promise.all(verdicts))).toEqual(new Set(['refused']));
  tick();
  expect(await append(journal, '{"n":2}')).toBe('committed');
  expect(stored(join(folder, 'edge-0')).map(({ header, lines }) => [header.frame_no, ...lines])).toEqual([
    [1, '{"n":1}'],
    [1, '{"n":2}'],
  ]);
});

/** The next fdatasync hangs until the test makes it fail. */
function hangingSync(): { readonly isBegun: () => boolean; readonly fail: () => void } {
  let fail = () => {};
  const sync = vi.spyOn(Segment.prototype, 'sync').mockImplementationOnce(
    () =>
      new Promise((_, refuse) => {
        fail = () => refuse(new Error('EIO'));
      }),
  );
  return { isBegun: () => sync.mock.calls.length > 0, fail: () => fail() };
}

/** Appends a record while nothing can be written, so that the producer is given up. */
async function appendToFullDisk(journal: Journal): Promise<void> {
  const full = () => {
    throw new Error('ENOSPC');
  };
  const appending = vi.spyOn(Segment.prototype, 'append').mockImplementation(full);
  const create = vi.spyOn(Segment, 'create').mockImplementation(full);
  expect(await append(journal, '{"n":"refused"}')).toBe('refused');
  appending.mockRestore();
  create.mockRestore();
}

test('a sync that fails after its producer was given up writes nothing into the journal of the next one', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder });
  const sync = hangingSync();
  const before = journal.producerId;
  await append(journal, '{"n":1}');
  await expect.poll(sync.isBegun).toBe(true);
  await append(journal, '{"n":2}');
  await appendToFullDisk(journal);
  await expect.poll(() => append(journal, '{"n":3}'), { timeout: 5_000 }).toBe('committed');
  sync.fail();
  await expect.poll(() => journal.counters.sync_failures).toBe(1);
  await append(journal, '{"n":4}');
  expect(
    stored(join(folder, 'edge-0')).map(({ header, lines }) => [header.producer_id, header.frame_no, ...lines]),
  ).toEqual([
    [before, 1, '{"n":1}'],
    [before, 2, '{"n":2}'],
    [journal.producerId, 1, '{"n":3}'],
    // Written again, because the failed sync covered everything that was there.
    [journal.producerId, 1, '{"n":3}'],
    [journal.producerId, 2, '{"n":4}'],
  ]);
});

test('frames that three syncs in a row did not save are counted and named in the log, because a power loss may destroy them', async () => {
  const lines: string[] = [];
  const journal = await journalOf({ root: root(), log: (line) => lines.push(line) });
  const before = journal.producerId;
  const sync = vi.spyOn(Segment.prototype, 'sync').mockRejectedValue(new Error('EIO'));
  expect(await append(journal, '{"n":1}')).toBe('committed');
  await expect.poll(() => journal.counters.unsynced, { timeout: 5_000 }).toBe(1);
  sync.mockRestore();
  expect(journal.counters.sync_failures).toBeGreaterThanOrEqual(3);
  expect(lines).toEqual([expect.stringMatching(new RegExp(`${before} could not be synced: a power loss may destroy`))]);
  await expect.poll(() => journal.isWritable, { timeout: 5_000 }).toBe(true);
  expect(journal.producerId).not.toBe(before);
  expect(await append(journal, '{"n":2}')).toBe('committed');
});

test('with before_answer, records whose sync fails after their producer was given up are refused', async () => {
  const journal = await journalOf({ root: root(), sync: 'before_answer' });
  const sync = hangingSync();
  const first = append(journal, '{"n":1}');
  await expect.poll(sync.isBegun).toBe(true);
  const second = append(journal, '{"n":2}');
  await appendToFullDisk(journal);
  await expect.poll(() => journal.isWritable, { timeout: 5_000 }).toBe(true);
  const third = append(journal, '{"n":3}');
  sync.fail();
  expect(await Promise.all([first, second, third])).toEqual(['refused', 'refused', 'committed']);
});

test('records of consecutive turns are written, in frames within the maximum size', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder });
  const line = `"${'€'.repeat(20_000)}"`;
  for (let turn = 0; turn < 9; turn++) {
    const verdicts = await Promise.all(Array.from({ length: 30 }, () => append(journal, line, 0, 'event')));
    expect(new Set(verdicts)).toEqual(new Set(['committed']));
  }
  const frames = stored(join(folder, 'edge-0'));
  expect(frames.flatMap(({ lines }) => lines)).toHaveLength(270);
  expect(Math.max(...frames.map(({ header }) => header.payloadBytes))).toBeLessThanOrEqual(262_144 - 64);
});

test('with before_answer no record is answered before the sync, and records of a failed sync are refused', async () => {
  const journal = await journalOf({ root: root(), sync: 'before_answer' });
  const order: string[] = [];
  const sync = vi.spyOn(Segment.prototype, 'sync').mockImplementation(async () => {
    await new Promise((laterTurn) => setImmediate(laterTurn));
    order.push('synced');
  });
  await append(journal, '{}').then((verdict) => order.push(verdict));
  expect(order).toEqual(['synced', 'committed']);
  sync.mockRejectedValue(new Error('EIO'));
  expect(await append(journal, '{}')).toBe('refused');
});

test('answered records survive the deletion of their segment while it is being written', async () => {
  const folder = root();
  const lines: string[] = [];
  const journal = await journalOf({ root: folder, log: (line) => lines.push(line) });
  await append(journal, '{"n":1}');
  await append(journal, '{"n":2}', 3);
  rmSync(join(folder, 'edge-0', journal.producerId, '00000001.seg'));
  await append(journal, '{"n":3}');
  const numbers = () => stored(join(folder, 'edge-0')).map((frame) => [frame.header.frame_no, ...frame.lines]);
  await expect.poll(numbers, { timeout: 5_000 }).toHaveLength(3);
  await append(journal, '{"n":4}');
  expect(numbers()).toEqual([
    [1, '{"n":1}'],
    [1, '{"n":2}'],
    [2, '{"n":3}'],
    [3, '{"n":4}'],
  ]);
  expect(journal.counters.deleted_segments).toBe(1);
  expect(lines).toEqual([expect.stringContaining('deleted while it was being written')]);
});

test('answered records survive the deletion of their segment while the disk is full, once there is room', async () => {
  let room = Number.POSITIVE_INFINITY;
  const disk: Disk = {
    ...nodeDisk,
    write: (file, bytes, at) => {
      const count = Math.min(room, bytes.length - at);
      if (count <= 0) throw new Error('ENOSPC');
      room -= count;
      return nodeDisk.write(file, bytes.subarray(0, at + count), at);
    },
  };
  const folder = root();
  const lines: string[] = [];
  const options = { root: folder, segmentBytes: 10_000_000, log: (line: string) => lines.push(line) };
  const journal = await journalOf(options, { ...nodeSystem, disk });
  const kept: string[] = [];
  const send = async (text: string) => {
    if ((await append(journal, text)) === 'committed') kept.push(text);
  };
  for (let n = 0; n < 50; n++) await send(`{"n":${n},"text":"${'x'.repeat(60_000)}"}`);
  rmSync(join(folder, 'edge-0', journal.producerId, '00000001.seg'));
  // Enough for a part of it.
  room = 1_500_000;
  await expect.poll(() => lines.length, { timeout: 5_000 }).toBe(2);
  for (let n = 0; n < 20; n++) await send(`{"m":${n},"text":"${'x'.repeat(60_000)}"}`);
  room = Number.POSITIVE_INFINITY;
  await expect.poll(() => lines.at(-1), { timeout: 5_000 }).toContain('are written again');
  await expect.poll(() => journal.isWritable, { timeout: 5_000 }).toBe(true);
  await send('{"last":1}');
  const found = stored(join(folder, 'edge-0')).flatMap((frame) => frame.lines);
  expect(kept.filter((text) => !found.includes(text)).map((text) => text.slice(0, 10))).toEqual([]);
  expect(kept.length).toBeGreaterThan(50);
});

test('the whole folder of a producer can be deleted, and nothing is lost that was answered before the producer noticed', async () => {
  const folder = root();
  const journal = await journalOf({ root: folder, segmentBytes: 1_000 });
  const line = `{"text":"${'x'.repeat(300)}"}`;
  await append(journal, line);
  rmSync(join(folder, 'edge-0', journal.producerId), { recursive: true });
  // The third of them needs another segment.
  for (let n = 0; n < 4; n++) expect(await append(journal, line)).toBe('committed');
  await journal.close();
  open.pop();
  expect(stored(join(folder, 'edge-0')).map((frame) => frame.header.frame_no)).toEqual([1, 2, 3, 4, 5]);
});
