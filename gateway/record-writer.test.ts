import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Journal } from '#common/journal/journal.ts';
import { type PendingRecord, RecordWriter } from './record-writer.ts';

let root: string;
let journal: Journal;
let writer: RecordWriter;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'records-'));
  journal = await Journal.open({ root, slot: 'edge', segmentBytes: 1e9, bytesMax: 1e9, sync: 'after_answer' });
  writer = new RecordWriter(journal, 1);
});
afterEach(async () => {
  await journal.close();
  rmSync(root, { recursive: true });
});

function batch(count: number, chars: number): PendingRecord[] {
  return Array.from({ length: count }, (_, n) => ({ id: String(n), json: `"${'x'.repeat(chars - 2)}"` }));
}

test('a batch that fits into one turn is stored completely or not at all, even if the turn fills up in the middle of it', async () => {
  const sizes = [1_000, 999, 998, 997, 996, 995, 2];
  const kept = await Promise.all(sizes.map((size) => writer.write('event', 'app', batch(size, 1_100))));
  expect(kept).toEqual([true, true, true, true, false, false, true]);
  expect(journal.counters.records).toBe(1_000 + 999 + 998 + 997 + 2);
});

test('a batch with one record that is too long is not partly stored', async () => {
  expect(await writer.write('event', 'app', [...batch(3, 100), ...batch(1, 80_001), ...batch(3, 100)])).toBe(false);
  expect(await writer.write('event', 'app', batch(1, 100))).toBe(true);
  expect(journal.counters.records).toBe(1);
});

test('a batch larger than a turn is spread over several, even if others fill the turns in between', async () => {
  const others = (count: number) => () => writer.write('event', 'app', batch(count, 79_000));
  const between = others(1)().then(others(60)).then(others(60));
  const kept = await Promise.all([between, writer.write('event', 'app', batch(100, 79_000))]);
  expect(kept).toEqual([true, true]);
  expect(journal.counters.records).toBe(1 + 60 + 60 + 100);
});
