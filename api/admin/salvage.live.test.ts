import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { nodeDisk } from '#common/journal/disk.ts';
import { SegmentReader } from '#common/journal/segment-reader.ts';
import { encodeFrame } from '#common/log/frame.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { addSalvageCommand } from './salvage.ts';

const producer = newId('evt', Date.now()).slice(4);
let server: TestPostgres;
let db: Postgres;
let root: string;
beforeAll(async () => {
  server = await postgresForTest();
  db = new Postgres({ url: server.url, name: 'test' });
  await db.execute(
    "INSERT INTO ingest.mark (producer_id, kind, partition, mark, ahead) VALUES ($1, 'click', 0, 2, '[[6, 6]]')",
    [producer],
  );
});
afterAll(async () => {
  await db.close();
  await server.stop();
});
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'salvage-'));
});
afterEach(() => rmSync(root, { recursive: true }));

function frame(frame_no: number): Buffer {
  const bytes = Buffer.alloc(200);
  const header = { kind: 'click', partition: 0, producer_id: producer, frame_no, records: 2, written_at: 1 } as const;
  return bytes.subarray(0, encodeFrame(bytes, 0, header, '{}\n{}\n'));
}

async function run(...args: string[]): Promise<string[]> {
  const lines: string[] = [];
  const program = new Command('admin').exitOverride().configureOutput({ writeErr: () => undefined });
  const print = (line: string) => lines.push(line);
  const parts = () => ({ db, clock: Date.now });
  addSalvageCommand(program, { parts, adminEmail: '', adminPassword: '', secretKey: '', print, warn: print });
  await program.parseAsync(['node', 'admin', 'salvage', ...args]);
  return lines;
}

test('what is intact in a foreign journal is listed, and what is not stored is added to another one, once', async () => {
  const foreign = join(root, 'copy', 'edge-0', producer);
  mkdirSync(foreign, { recursive: true });
  writeFileSync(join(foreign, '00000001.seg'), Buffer.concat([1, 2, 3].map(frame)));
  const damaged = Buffer.concat([frame(4).fill(0, 30, 70), ...[5, 6, 7].map(frame), frame(8).subarray(0, 20)]);
  writeFileSync(join(foreign, '00000002.seg'), damaged);
  const there = [
    `${foreign}: ${frame(4).length} bytes in damaged places, 20 bytes of incomplete frames at the ends of files`,
    '  clicks of partition 0: frames 1 to 7, without 4; not stored: 3 frames, 6 records',
  ];
  expect(await run(join(root, 'copy'))).toEqual(there);
  expect(await run(foreign)).toEqual(there);
  const journal = join(root, 'data', 'journal');
  await expect(run(foreign, '--into', journal)).rejects.toThrow('is not the folder journal');
  mkdirSync(journal, { recursive: true });
  const added = join(journal, 'salvaged', producer);
  expect(await run(foreign, '--into', journal)).toEqual([...there, expect.stringContaining(added)]);
  expect(readdirSync(join(journal, 'salvaged'))).toEqual([producer]);
  const [name = ''] = readdirSync(added);
  const reader = new SegmentReader(nodeDisk, join(added, name), producer);
  const numbers: number[] = [];
  for (let read = reader.next(); read.state === 'frame'; read = reader.next()) numbers.push(read.header.frame_no);
  reader.close();
  expect(numbers).toEqual([3, 5, 7]);
  await expect(run(foreign, '--into', journal)).rejects.toThrow('has this producer already');
  // The folder that was read is as it was.
  expect(readFileSync(join(foreign, '00000002.seg'))).toEqual(damaged);
  await expect(run(join(root, 'data', 'journal', 'none'))).rejects.toThrow('has no folder of a producer');
});
