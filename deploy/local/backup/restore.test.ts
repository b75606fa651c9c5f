import {
  appendFileSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statfsSync,
  symlinkSync,
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
async function backup(links: Record<string, string> = {}): Promise<string> {
  const source = join(folder, 'source');
  const target = join(folder, 'backup');
  mkdirSync(target);
  const writer = new BackupWriter(target);
  for (const store of ['clickhouse/store', 'postgres/cluster']) {
    mkdirSync(join(source, store), { recursive: true });
    writeFileSync(join(source, store, 'file'), store);
    await writer.addFolder(join(source, store), store);
  }
  await writer.addText('secret', 'key');
  const times = { started_at: '', ended_at: '', replay_from: '' };
  const facts = { format: backupFormat, version: '0', platform, ...times, links };
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

test('files that SHA256SUMS does not list are not restored', async () => {
  const made = await backup();
  const extra = ['login.json', 'postgres/cluster/pg_hba.conf', 'clickhouse/store/more/x'];
  mkdirSync(join(made, 'clickhouse/store/more'));
  for (const file of extra) writeFileSync(join(made, file), 'x');
  await restore({ dataDir, folder: made });
  expect(extra.filter((file) => existsSync(join(dataDir, file)))).toEqual([]);
  expect(existsSync(join(dataDir, 'postgres/cluster/file'))).toBe(true);
});

const outside = 'clickhouse/store/../../../outside';
test.each([
  ['a link outside', { [outside]: 'file' }],
  ['an absolute target', { 'clickhouse/store/x': '/etc/shadow' }],
  ['a target above the store', { 'clickhouse/store/a/x': '../../../secret-key' }],
  ['a target that goes down and up', { 'clickhouse/store/a/x': 'b/../../../../secret-key' }],
  ['a link below a link', { 'clickhouse/store/a/b': '../c', 'clickhouse/store/a/b/c/x': '../../../d' }],
  ['a link in no store', { 'nats/x': 'y' }],
])('a backup with %s is refused before anything is written', async (_, links) => {
  const made = await backup(links);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/leads outside its store. Nothing was restored/);
  expect(existsSync(join(dataDir, 'key'))).toBe(false);
});

test('links inside a store are restored', async () => {
  await restore({ dataDir, folder: await backup({ 'clickhouse/store/x': 'file' }) });
  expect(readlinkSync(join(dataDir, 'clickhouse/store/x'))).toBe('file');
});

test.each(['../secret', '/etc/hostname', 'key/../../secret'])(
  'a backup that lists %s is refused before anything is written',
  async (file) => {
    const made = await backup();
    writeFileSync(join(folder, 'secret'), 'x');
    appendFileSync(join(made, 'SHA256SUMS'), `${'0'.repeat(64)}  ${file}\n`);
    await expect(restore({ dataDir, folder: made })).rejects.toThrow(/which is not a file inside it/);
    expect(existsSync(join(dataDir, 'key'))).toBe(false);
  },
);

test('a listed file that is a symbolic link is refused', async () => {
  const made = await backup();
  rmSync(join(made, 'key'));
  writeFileSync(join(folder, 'secret'), 'secret');
  symlinkSync(join(folder, 'secret'), join(made, 'key'));
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/which is not a file inside it/);
});
