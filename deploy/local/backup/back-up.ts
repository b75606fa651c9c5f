/**
 * Backs up what npm start stores in DATA_DIR while it runs: journals, then Postgres, then ClickHouse. With this order,
 * the backup contains every record that was accepted before. A journal deletes only what ClickHouse has, and the marks
 * in Postgres name no record that the later copy of ClickHouse lacks. Records beyond the marks are recognized as after
 * any restore.
 */
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { localClickHouseUrl, localDatabaseUrl } from '#api/admin/local-store.ts';
import { MINUTE_MS } from '#common/durations.ts';
import { releaseVersion } from '#common/process/release.ts';
import { StartupError } from '#deploy/local/child.ts';
import { makeNewFolder } from '#deploy/local/new-folder.ts';
import { type BackupFacts, factsFile, platform } from './backup-facts.ts';
import { BackupWriter, treeBelow } from './backup-files.ts';
import { flushDisks, refuseWithoutRoom } from './disks.ts';
import { backUpPostgres } from './postgres-backup.ts';

export interface BackUpOptions {
  readonly dataDir: string;
  readonly folder: string;
  readonly nowMs: () => number;
}

/** Secrets and passwords; absent ones were set in the environment. */
const smallFiles = ['secret-key', 'address-key', 'login.json', 'journal/installation', 'journal/machine'];
/** Margin, because ingest may have been behind, and clocks differ. */
const replayMarginMs = 5 * MINUTE_MS;
const freezeTimeoutMs = 120_000;

/**
 * A failed backup leaves nothing behind. @throws StartupError if the servers are not running, the folder exists, or other users
 * can write where it is.
 */
export async function backUp(options: BackUpOptions): Promise<BackupFacts> {
  makeNewFolder(options.folder);
  try {
    return await writeBackup(options);
  } catch (error) {
    rmSync(options.folder, { recursive: true, force: true });
    throw error;
  }
}

async function writeBackup({ dataDir, folder, nowMs }: BackUpOptions): Promise<BackupFacts> {
  const urls = { postgres: localDatabaseUrl(dataDir), clickhouse: localClickHouseUrl(dataDir) };
  if (urls.postgres === '' || urls.clickhouse === '') {
    throw new StartupError(
      `npm start is not running with DATA_DIR=${dataDir}. Start it first: a backup is made while it runs.`,
    );
  }
  const copied = ['journal', 'postgres/cluster', 'clickhouse/store'];
  refuseWithoutRoom(
    folder,
    copied.map((name) => join(dataDir, name)),
  );
  const writer = new BackupWriter(folder);
  const startedMs = nowMs();
  await backUpJournals(join(dataDir, 'journal'), writer);
  for (const file of smallFiles) await writer.addFile(join(dataDir, file), file);
  await writer.addFolder(join(dataDir, 'tls'), 'tls');
  for (const server of ['postgres', 'clickhouse']) {
    const passwords = readdirSync(join(dataDir, server)).filter((name) => name.startsWith('password'));
    for (const name of passwords) await writer.addFile(join(dataDir, server, name), join(server, name));
  }
  const numberedSinceMs = await backUpPostgres(urls.postgres, join(dataDir, 'postgres', 'cluster'), writer);
  const frozen = await freezeClickHouse(urls.clickhouse);
  try {
    await writer.addFolder(frozen, 'clickhouse/store');
  } finally {
    rmSync(frozen, { recursive: true, force: true });
  }
  const facts = await writer.finish({
    version: releaseVersion(),
    platform,
    started_at: new Date(startedMs).toISOString(),
    ended_at: new Date(nowMs()).toISOString(),
    replay_from: new Date(Math.max(startedMs - replayMarginMs, numberedSinceMs)).toISOString(),
  });
  await flushDisks();
  writeFileSync(join(folder, factsFile), `${JSON.stringify(facts, null, 2)}\n`, { flag: 'wx', mode: 0o600 });
  await flushDisks();
  return facts;
}

/**
 * The newest segment of a journal first: older ones may be deleted in the meantime, and the copies must have no gap.
 */
async function backUpJournals(root: string, writer: BackupWriter): Promise<void> {
  const segments = treeBelow(root).files.filter((file) => file.endsWith('.seg'));
  for (const file of segments.reverse()) await writer.addFile(join(root, file), join('journal', file));
}

/** @returns the folder with a copy of the store. */
function freezeClickHouse(url: string): Promise<string> {
  const { origin, username, password, searchParams } = new URL(url);
  const socketPath = searchParams.get('socket') ?? undefined;
  const auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const options = { method: 'POST', auth, socketPath, signal: AbortSignal.timeout(freezeTimeoutMs) };
  return new Promise((done, fail) => {
    const asked = request(`${origin}/freeze`, options, (answer) => {
      text(answer).then((body) => {
        if (answer.statusCode === 200) done(body.trim());
        else fail(new StartupError(`ClickHouse could not be copied: ${body.trim()}`));
      }, fail);
    });
    asked.on('error', fail).end();
  });
}
