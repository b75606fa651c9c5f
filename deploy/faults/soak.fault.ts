/**
 * Runs for an hour without faults at half the load of log-full.fault.ts: memory, open files, log and journals must not
 * grow.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';
import { storeNames } from './store.ts';

const minutes = times(60);
const samplesPerMinute = 4;
const logBytesMax = 268_435_456;
/** Between the second quarter and the last, a process may grow by this share plus a small constant. */
const growthMax = 1.15;
const megabytesMax = 24;
const filesMax = 10;
/** For each process, an open segment of at most 64 MiB, and one that waits for its last commits. */
const journalBytesMax = 4 * 67_108_864;

interface Sample {
  readonly megabytes: number;
  readonly files: number;
}

function sampleOf(pid: number): Sample {
  const resident = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  return { megabytes: Math.round(resident / 1024), files: readdirSync(`/proc/${pid}/fd`).length };
}

function bytesIn(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    // A segment may be deleted between listing and reading it.
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return bytes;
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}

/** The median of a quarter of the run, the first being 1. */
function quarter(of: readonly Sample[], n: number, field: keyof Sample): number {
  return median(of.slice((of.length * (n - 1)) / 4, (of.length * n) / 4).map((sample) => sample[field]));
}

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ settings: { LOG_BYTES_MAX: String(logBytesMax) } });
});
afterAll(() => stage.stop());

test('an hour under load does not grow memory, open files, log or journals', async () => {
  const samples = new Map<string, Sample[]>();
  let table: { readonly name: string; readonly megabytes: number[]; readonly files: number[] }[] = [];
  const largest = { log: 0, journals: 0, uncommittedSeconds: 0 };
  const note = (name: string, pid: number) => {
    samples.set(name, [...(samples.get(name) ?? []), sampleOf(pid)]);
  };
  const options = { name: 'soak', seed, clicks: 0, clicksPerSecond: 2_000, eventSenders: 1, settleMs: 300_000 };
  const report = await runFault(stage, options, async ({ hit }) => {
    for (let at = 0; at < minutes * samplesPerMinute; at++) {
      await sleep(systemTime, 60_000 / samplesPerMinute);
      for (const { name, pid } of stage.stack.parts) note(name, pid);
      for (const name of storeNames) note(`store ${name}`, stage.stores[name].pid);
      largest.journals = Math.max(largest.journals, bytesIn(join(stage.stack.dataDir, 'journal')));
      largest.log = Math.max(largest.log, await stage.metric('ingest', 'signpost_ingest_log_bytes{'));
      const uncommitted = await stage.metric('publisher', 'signpost_publisher_uncommitted_seconds');
      largest.uncommittedSeconds = Math.max(largest.uncommittedSeconds, uncommitted);
      if (at % (samplesPerMinute * 5) === 0) console.log(`minute ${at / samplesPerMinute}`, largest);
    }
    hit(`${minutes} minutes`);
    table = [...samples].map(([name, of]) => ({
      name,
      megabytes: [1, 2, 3, 4].map((n) => quarter(of, n, 'megabytes')),
      files: [1, 2, 3, 4].map((n) => quarter(of, n, 'files')),
    }));
    console.log(largest, JSON.stringify(table, null, 1));
  });
  expect(report).toMatchObject(nothingWrong);
  expect(largest.log).toBeLessThanOrEqual(logBytesMax);
  expect(largest.journals).toBeLessThanOrEqual(journalBytesMax);
  const grown = table.filter(({ name, megabytes: [, second = 0, , last = 0], files: [, few = 0, , many = 0] }) => {
    // The data of a store is meant to grow with the clicks.
    if (name.startsWith('store ')) return false;
    return last > second * growthMax + megabytesMax || many > few + filesMax;
  });
  expect(grown).toEqual([]);
});
