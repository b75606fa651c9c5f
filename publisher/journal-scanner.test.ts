/** Tests which producers of a slot a publisher considers alive. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { isId, newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { newProducerId } from '#common/journal/producer-names.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { newScanState, type Producer, scanJournals } from './journal-scanner.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'folders-'));
});
afterEach(() => rmSync(root, { recursive: true }));

/** The folder of a producer that began at a given time. */
function earlierProducer(slot: string, ms: number): string {
  const name = newId('evt', ms).slice(4);
  mkdirSync(join(root, slot, name), { recursive: true });
  return name;
}

test('in a held slot, the producer that writes is the live one, even if the clock was set back before it started', async () => {
  const earlier = earlierProducer('edge-0', Date.now() + HOUR_MS);
  mkdirSync(join(root, 'edge-0', 'lost+found'));
  const journal = await Journal.open({ root, slot: 'edge-0', segmentBytes: 1e6, bytesMax: 1e9, sync: 'after_answer' });
  const producers = new Map<string, Producer>();
  await scanJournals(
    nodeSystem,
    root,
    producers,
    newScanState(() => undefined),
  );
  const living = [...producers].map(([name, { reader }]) => [name, reader.isAlive]);
  expect(living).toEqual([
    [earlier, false],
    [journal.producerId, true],
  ]);
  await journal.close();
  await scanJournals(
    nodeSystem,
    root,
    producers,
    newScanState(() => undefined),
  );
  expect(producers.get(journal.producerId)?.reader.isAlive).toBe(false);
});

test('while the system cannot list a folder, its journals stay, alive or not, and the scan says so', async () => {
  const journal = await Journal.open({ root, slot: 'edge-0', segmentBytes: 1e6, bytesMax: 1e9, sync: 'after_answer' });
  const producers = new Map<string, Producer>();
  const lines: string[] = [];
  const state = newScanState((line) => void lines.push(line));
  await scanJournals(nodeSystem, root, producers, state);
  for (const unlisted of [root, join(root, 'edge-0')]) {
    const folders = (path: string) => {
      if (path === unlisted) throw Object.assign(new Error('too many files'), { code: 'EMFILE' });
      return nodeSystem.disk.folders(path);
    };
    const system = { ...nodeSystem, disk: { ...nodeSystem.disk, folders } };
    for (let n = 0; n < 2; n++) await scanJournals(system, root, producers, state);
    expect(state.fault).toBe(`${unlisted} cannot be listed: too many files`);
    expect(lines.splice(0)).toEqual([state.fault]);
    expect(producers.get(journal.producerId)?.reader.isAlive).toBe(true);
    await scanJournals(nodeSystem, root, producers, state);
    expect(state.fault).toBe('');
  }
  await journal.close();
  await scanJournals(nodeSystem, join(root, 'none'), producers, state);
  expect([state.fault, producers.get(journal.producerId)?.reader.isAlive]).toEqual(['', false]);
});

test('a new producer has a well-formed name that sorts after all others, including a previous one whose folder is gone', () => {
  const slot = join(root, 'edge-0');
  let last = earlierProducer('edge-0', Date.now() + 5_000);
  for (let n = 0; n < 100; n++) {
    const name = newProducerId(nodeSystem, slot, last);
    expect(isId('evt', `evt_${name}`)).toBe(true);
    expect(name > last).toBe(true);
    last = name;
  }
});
