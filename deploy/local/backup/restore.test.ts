import {
  appendFileSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
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
import { releaseVersion } from '#common/process/release.ts';
import { backupFormat, earlierFormat, factsFile, platform } from './backup-facts.ts';
import { BackupWriter } from './backup-files.ts';
import { refuseWithoutRoom } from './disks.ts';
import { refuseInterruptedRestore, restore } from './restore.ts';
import { tryRestore } from './trial-restore.ts';

let folder: string;
let dataDir: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-restore-'));
  dataDir = join(folder, 'data');
});
afterEach(() => rmSync(folder, { recursive: true }));

const linkOfDatabase = { 'clickhouse/store/metadata/default': '../global' };
const time = '2026-01-31T12:00:00.000Z';

/** A backup of two stores with two files, an empty folder and a link each, and of one more file. */
async function backup(): Promise<string> {
  const source = join(folder, 'source');
  const target = join(folder, 'backup');
  mkdirSync(target);
  const writer = new BackupWriter(target);
  for (const store of ['clickhouse/store', 'postgres/cluster']) {
    for (const name of ['global', 'empty', 'metadata']) mkdirSync(join(source, store, name), { recursive: true });
    for (const name of ['file', 'global/pg_control']) writeFileSync(join(source, store, name), store);
    symlinkSync('../global', join(source, store, 'metadata/default'));
    await writer.addFolder(join(source, store), store);
  }
  await writer.addText('secret', 'key');
  const times = { started_at: time, ended_at: time, replay_from: time };
  const facts = await writer.finish({ version: releaseVersion(), platform, ...times });
  writeFileSync(join(target, factsFile), JSON.stringify(facts));
  return target;
}

function edit(made: string, changes: object): void {
  const file = join(made, factsFile);
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...changes }));
}

/** As versions made it that did not record how many files it has. */
async function earlierBackup(links: Record<string, string> = {}): Promise<string> {
  const made = await backup();
  const { files, folders, checksums_sha256 } = JSON.parse(readFileSync(join(made, factsFile), 'utf8'));
  expect([files, folders.length, checksums_sha256.length]).toEqual([6, 6, 64]);
  const dropped = { files: undefined, folders: undefined, checksums_sha256: undefined };
  edit(made, { ...dropped, format: earlierFormat, links: { ...linkOfDatabase, ...links } });
  list(
    made,
    linesOf(made).filter((line) => !line.endsWith('  facts.json')),
  );
  rmSync(join(made, 'facts.json'));
  return made;
}

const linesOf = (made: string) => readFileSync(join(made, 'SHA256SUMS'), 'utf8').split('\n').filter(Boolean);
const list = (made: string, lines: readonly string[]) =>
  writeFileSync(join(made, 'SHA256SUMS'), lines.map((line) => `${line}\n`).join(''));

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

test.runIf(process.getuid?.() === 0).each(['journal', 'lock', 'key', 'postgres', 'nats', 'original'])(
  'root restores nothing into a folder of another user with a link of that user in the place of %s',
  async (name) => {
    const made = await backup();
    const kept = join(folder, 'kept');
    mkdirSync(kept);
    mkdirSync(dataDir);
    symlinkSync(kept, join(dataDir, name));
    for (const path of [dataDir, join(dataDir, name)]) lchownSync(path, 4_321, 4_322);
    await expect(restore({ dataDir, folder: made })).rejects.toThrow(/belongs to another user .*Nothing was restored/);
    expect([readdirSync(dataDir), readdirSync(kept)]).toEqual([[name], []]);
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

test('a backup whose list is cut off anywhere is refused before anything is changed', async () => {
  const made = await backup();
  const lines = linesOf(made);
  expect(lines).toHaveLength(6);
  for (const count of lines.keys()) {
    list(made, lines.slice(0, count));
    const sentence = `The backup is incomplete: ${join(made, 'SHA256SUMS')} lists ${count} files instead of 6. Nothing was restored.`;
    await expect(restore({ dataDir, folder: made })).rejects.toThrow(sentence);
    await expect(tryRestore(made)).rejects.toThrow(sentence);
  }
  list(made, [...lines.slice(1), lines[1] ?? '']);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/SHA256SUMS has changed. Nothing was restored/);
  rmSync(join(made, 'SHA256SUMS'));
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/not a complete backup: .*SHA256SUMS is missing/);
  expect(readdirSync(folder).sort()).toEqual(['backup', 'source']);
  list(made, lines);
  expect((await restore({ dataDir, folder: made })).doubt).toBeNull();
});

test('a backup whose backup.json is cut off is refused in one sentence', async () => {
  const made = await backup();
  truncateSync(join(made, factsFile), 20);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(
    /^The backup is damaged: .*backup.json is not whole./,
  );
});

const damaged = /^The backup is damaged: .*backup.json .*Nothing was restored.$/;
test.each<[string, object, RegExp]>([
  ['without links', { links: undefined }, damaged],
  ['with no link', { links: {} }, damaged],
  ['with another link', { links: { ...linkOfDatabase, 'clickhouse/store/x': 'file' } }, damaged],
  ['with a link to no text', { links: { x: 1 } }, damaged],
  ['with a list as links', { links: [] }, damaged],
  ['without folders', { folders: undefined }, damaged],
  ['with another list of folders', { folders: ['postgres/cluster/empty'] }, damaged],
  ['without the number of files', { files: undefined }, damaged],
  ['without any proof', { files: undefined, checksums_sha256: undefined }, damaged],
  ['with the earlier format', { format: earlierFormat }, damaged],
  [
    'with the earlier format and no counts',
    { format: earlierFormat, files: undefined, checksums_sha256: undefined },
    damaged,
  ],
  [
    'with the earlier format and no proof',
    { format: earlierFormat, files: undefined, checksums_sha256: undefined, folders: undefined },
    damaged,
  ],
  ['of an older version than its list', { version: '0.1.0' }, damaged],
  ['with another time', { replay_from: '2026-02-01T00:00:00.000Z' }, damaged],
  ['with no time', { replay_from: 'x' }, damaged],
  ['with no version', { version: undefined }, damaged],
  ['of a newer version', { version: '9.9.9' }, /made by Signpost 9.9.9, and this is .*Nothing was restored.$/],
  ['of a format of the future', { format: backupFormat + 1 }, /has format 3/],
])('a backup.json %s is refused in one sentence before anything is changed', async (_, changes, sentence) => {
  const made = await backup();
  edit(made, changes);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(sentence);
  expect(existsSync(dataDir)).toBe(false);
});

test.each(['null', '[]', '1'])('a backup.json that is only %s is refused', async (text) => {
  const made = await backup();
  writeFileSync(join(made, factsFile), text);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/backup.json is not whole/);
});

test('a backup whose facts.json was edited like its backup.json is refused', async () => {
  const made = await backup();
  edit(made, { folders: [] });
  const { files, checksums_sha256, ...facts } = JSON.parse(readFileSync(join(made, factsFile), 'utf8'));
  expect([files, checksums_sha256.length]).toEqual([6, 64]);
  writeFileSync(join(made, 'facts.json'), JSON.stringify(facts));
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(damaged);
});

test('a backup of an earlier version without the link to the database of ClickHouse is refused', async () => {
  const made = await earlierBackup();
  for (const links of [{}, { 'clickhouse/store/metadata/default': '../nowhere' }]) {
    edit(made, { links });
    await expect(restore({ dataDir, folder: made })).rejects.toThrow(/has no link clickhouse.store.metadata.default/);
  }
});

test('a backup of an earlier version is restored, and the doubt whether it is complete is told', async () => {
  const made = await earlierBackup();
  const lines = linesOf(made);
  const isKey = (line: string) => line.endsWith('  key');
  list(made, lines.filter(isKey));
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/incomplete: .* lists only 1 files/);
  expect(existsSync(dataDir)).toBe(false);
  list(
    made,
    lines.filter((line) => !isKey(line)),
  );
  expect((await restore({ dataDir, folder: made })).doubt).toMatch(
    /nothing proves that the 4 files of .* are all of it. Its folder has 1 more, which are not restored/,
  );
  rmSync(dataDir, { recursive: true });
  list(made, lines);
  expect((await restore({ dataDir, folder: made })).doubt).toMatch(
    /nothing proves that the 5 files of .* are all of it.$/,
  );
});

test('an empty folder that a tool omitted when it copied the backup is made again', async () => {
  const made = await backup();
  rmSync(join(made, 'postgres/cluster/empty'), { recursive: true });
  await restore({ dataDir, folder: made });
  expect(readdirSync(join(dataDir, 'postgres/cluster')).sort()).toEqual(['empty', 'file', 'global', 'metadata']);
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
  const made = await earlierBackup(links);
  await expect(restore({ dataDir, folder: made })).rejects.toThrow(/leads outside its store. Nothing was restored/);
  expect(existsSync(join(dataDir, 'key'))).toBe(false);
});

test('links inside a store are restored', async () => {
  await restore({ dataDir, folder: await backup() });
  expect(readlinkSync(join(dataDir, 'clickhouse/store/metadata/default'))).toBe('../global');
  expect(existsSync(join(dataDir, 'facts.json'))).toBe(false);
});

test.each(['../secret', '/etc/hostname', 'key/../../secret'])(
  'a backup that lists %s is refused before anything is written',
  async (file) => {
    const made = await earlierBackup();
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
