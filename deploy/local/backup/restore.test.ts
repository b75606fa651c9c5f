import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { backupFormat, factsFile, platform } from './backup-facts.ts';
import { BackupWriter } from './backup-files.ts';
import { refuseWithoutRoom } from './disks.ts';
import { refuseInterruptedRestore, restore } from './restore.ts';

let folder: string;
let dataDir: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-restore-'));
  dataDir = join(folder, 'data');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A backup of two stores with one file each. */
async function backup(): Promise<string> {
  const source = join(folder, 'source');
  const target = join(folder, 'backup');
  const writer = new BackupWriter(target);
  mkdirSync(target);
  for (const store of ['clickhouse/store', 'postgres/cluster']) {
    mkdirSync(join(source, store), { recursive: true });
    writeFileSync(join(source, store, 'file'), store);
    await writer.addFolder(join(source, store), store);
  }
  await writer.addText('secret', 'key');
  const times = { started_at: '', ended_at: '', replay_from: '' };
  const facts = { format: backupFormat, version: '0', platform, ...times, links: {} };
  writeFileSync(join(target, factsFile), JSON.stringify(facts));
  return target;
}

test('after an interrupted restore, npm start refuses to run until a restore is complete', async () => {
  const made = await backup();
  const files = ['clickhouse/store/file', 'postgres/cluster/file', 'key'].map((file) => join(dataDir, file));
  // A folder in place of the first file to copy.
  mkdirSync(join(dataDir, 'key', 'folder'), { recursive: true });
  expect(() => refuseInterruptedRestore(dataDir)).not.toThrow();
  await expect(restore({ dataDir, folder: made })).rejects.toThrow('EISDIR');
  expect(() => refuseInterruptedRestore(dataDir)).toThrow(/was interrupted: restore again/);
  rmSync(join(dataDir, 'key'), { recursive: true });
  await restore({ dataDir, folder: made });
  expect(() => refuseInterruptedRestore(dataDir)).not.toThrow();
  expect(files.filter((file) => existsSync(file))).toEqual(files);
});

test('npm start refuses to run if an interrupted restore has already put one of the stores in place', () => {
  mkdirSync(join(dataDir, 'clickhouse', 'store'), { recursive: true });
  mkdirSync(join(dataDir, 'postgres', 'cluster.restored'), { recursive: true });
  expect(() => refuseInterruptedRestore(dataDir)).toThrow(/was interrupted: restore again/);
});

test.runIf(process.getuid?.() === 0)(
  'files that root restores belong to the owner of DATA_DIR, so that its service can read them',
  async () => {
    const made = await backup();
    mkdirSync(dataDir);
    chownSync(dataDir, 4_321, 4_322);
    await restore({ dataDir, folder: made });
    const restored = readdirSync(dataDir, { recursive: true }).map((path) => join(dataDir, String(path)));
    expect(restored.length).toBeGreaterThan(5);
    const owners = new Set(restored.map((path) => `${lstatSync(path).uid}:${lstatSync(path).gid}`));
    expect([...owners]).toEqual(['4321:4322']);
  },
);

test('a copy that the disk has no room for is refused before the first file, and leaves nothing behind', async () => {
  const made = await backup();
  refuseWithoutRoom(folder, [made]);
  // A file without blocks.
  const { bavail, bsize } = statfsSync(folder);
  truncateSync(join(made, 'key'), bavail * bsize);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/GiB free, and [\d.]+ GiB are needed/);
  expect(() => refuseInterruptedRestore(dataDir)).not.toThrow();
  // What is deleted first makes room.
  refuseWithoutRoom(folder, [made], [made]);
});
