/**
 * Restores a backup into DATA_DIR, which no installation may be using, and which keeps its owner. Existing journals and an existing log are kept,
 * because they have records that are newer than the backup.
 *
 *   verified → copied to drafts → renamed
 *
 * The drafts exist from the first copied file to the last rename. While they exist, npm start refuses to run; the next
 * restore replaces them.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import { promisify } from 'node:util';
import { systemEnvironment } from '#common/process/config.ts';
import { StartupError } from '#deploy/local/child.ts';
import { markRestored } from '#deploy/local/copied-folder.ts';
import { lockFolder } from '#deploy/local/folder-lock.ts';
import { givePostgresItsFiles } from '#deploy/local/postgres.ts';
import { makeDataFolderPrivate } from '#deploy/local/private-folder.ts';
import { type BackupFacts, provenFactsFile, readFacts } from './backup-facts.ts';
import { copyFiles, copyFolder, isInside, listFiles, verifyBackup } from './backup-files.ts';
import { flushDisks, refuseWithoutRoom } from './disks.ts';
import { refuseForeignLinks, refuseForeignTarget } from './restore-place.ts';

export interface RestoreOptions {
  readonly dataDir: string;
  readonly folder: string;
}

export interface Restored extends BackupFacts {
  /** Whether DATA_DIR still had journals or a log, from which newer records can be stored again. */
  readonly hasNewerRecords: boolean;
  /** Why the backup may be incomplete; null if it proves that it is complete. */
  readonly doubt: string | null;
}

const stores = ['clickhouse/store', 'postgres/cluster'];
const installationFile = 'journal/installation';
/** What a restore writes or looks at in DATA_DIR besides the files of the backup. */
const ownEntries = ['lock', 'original', installationFile, 'nats/store'];

/** @throws StartupError if the backup is damaged or incomplete, or DATA_DIR has data that it would replace. */
export async function restore({ dataDir, folder }: RestoreOptions): Promise<Restored> {
  const facts = readFacts(folder);
  const list = listFiles(folder, facts);
  const drafts = stores.map((store) => draftOf(dataDir, store));
  const used = [...list.sums.keys(), ...stores.map((store) => `${store}.restored`), ...ownEntries];
  refuseForeignTarget(dataDir);
  refuseForeignLinks(dataDir, used);
  makeDataFolderPrivate(dataDir);
  const lock = await lockFolder(dataDir);
  try {
    refuseOtherData(dataDir, folder);
    refuseOutsideLinks(facts.links);
    refuseWithoutRoom(dataDir, [folder], drafts);
    await verifyBackup(folder, list);
    // Verifying takes time, in which the owner of the folder may have changed it.
    refuseForeignLinks(dataDir, used);
    const hasJournals = existsSync(join(dataDir, 'journal'));
    const hasNewerRecords = hasJournals || existsSync(join(dataDir, 'nats', 'store'));
    for (const draft of drafts) {
      rmSync(draft, { recursive: true, force: true });
      mkdirSync(draft, { recursive: true, mode: 0o700 });
    }
    const isInStore = (file: string) => stores.some((store) => file.startsWith(`${store}/`));
    const isLeftOut = (file: string) => file === provenFactsFile || (hasJournals && file.startsWith('journal/'));
    await copyFiles(
      folder,
      dataDir,
      [...list.sums.keys()].filter((file) => !isInStore(file) && !isLeftOut(file)),
    );
    makeFolders(dataDir, facts.folders ?? []);
    for (const store of stores)
      await copyFolder(
        join(folder, store),
        draftOf(dataDir, store),
        (path, isFile) => !isFile || list.sums.has(join(store, path)),
      );
    createLinks(dataDir, facts.links);
    markRestored(dataDir);
    await giveFilesToTheirUsers(dataDir);
    await flushDisks();
    for (const store of stores) renameSync(draftOf(dataDir, store), join(dataDir, store));
    await flushDisks();
    return { ...facts, hasNewerRecords, doubt: list.doubt };
  } finally {
    lock.release();
  }
}

/**
 * Without this check, npm start would create an empty installation with the keys of the backup. @throws StartupError
 */
export function refuseInterruptedRestore(dataDir: string): void {
  const draft = stores.map((store) => draftOf(dataDir, store)).find((one) => existsSync(one));
  if (draft === undefined) return;
  throw new StartupError(
    `A restore into ${dataDir} was interrupted: restore again. To start without the backup, delete ${draft} and other folders whose names end in .restored.`,
  );
}

/**
 * As root, the files go to the owner of DATA_DIR, who runs npm start; if that is root too, Postgres gets its own, since it
 * does not run as root.
 */
async function giveFilesToTheirUsers(dataDir: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(dataDir);
  if (uid === 0) return givePostgresItsFiles(draftOf(dataDir, 'postgres/cluster'));
  await promisify(execFile)('chown', ['-hR', `${uid}:${gid}`, dataDir], { env: systemEnvironment() });
}

/**
 * Links of the ClickHouse store lead from one of its folders to another. A link that leads elsewhere, or is elsewhere, would
 * let a backup write where it is restored. No link is below another one, so what its target means is plain from its text.
 * @throws StartupError
 */
function refuseOutsideLinks(links: BackupFacts['links']): void {
  for (const [path, target] of Object.entries(links)) {
    const store = stores.find((one) => path.startsWith(`${one}/`));
    const isBelow = Object.keys(links).some((other) => path.startsWith(`${other}/`));
    const isPlain = typeof target === 'string' && !isAbsolute(target) && normalize(target) === target;
    if (store !== undefined && isInside(path) && normalize(path) === path && isPlain && !isBelow)
      if (join(dirname(path), target).startsWith(`${store}/`)) continue;
    throw new StartupError(
      `The backup has a link ${path} to ${target}, which leads outside its store. Nothing was restored.`,
    );
  }
}

/** Empty ones are in no list of files, and a tool that copied the backup may have omitted them. */
function makeFolders(dataDir: string, folders: readonly string[]): void {
  for (const folder of folders.filter(isInside)) {
    const store = stores.find((one) => folder.startsWith(`${one}/`));
    if (store === undefined) continue;
    mkdirSync(join(draftOf(dataDir, store), folder.slice(store.length + 1)), { recursive: true, mode: 0o700 });
  }
}

function createLinks(dataDir: string, links: BackupFacts['links']): void {
  for (const [path, target] of Object.entries(links)) {
    const store = stores.find((one) => path.startsWith(`${one}/`));
    if (store !== undefined) symlinkSync(target, join(draftOf(dataDir, store), path.slice(store.length + 1)));
  }
}

function draftOf(dataDir: string, store: string): string {
  return join(dataDir, `${store}.restored`);
}

function refuseOtherData(dataDir: string, folder: string): void {
  for (const store of stores) {
    if (!existsSync(join(dataDir, store))) continue;
    throw new StartupError(`${join(dataDir, store)} already exists: move it elsewhere, then restore again.`);
  }
  const idOf = (place: string) => {
    const file = join(place, installationFile);
    return existsSync(file) ? readFileSync(file, 'utf8').trim() : null;
  };
  const [own, backedUp] = [idOf(dataDir), idOf(folder)];
  if (own !== null && own !== backedUp) {
    throw new StartupError(
      `${join(dataDir, 'journal')} belongs to a different installation than the backup: set DATA_DIR to a new folder.`,
    );
  }
}
