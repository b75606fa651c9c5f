/** What a backup says about itself, written last: a folder without this file is not a complete backup. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StartupError } from '#deploy/local/child.ts';

export const factsFile = 'backup.json';
export const backupFormat = 1;
/** The files of Postgres and ClickHouse can be read only on the same platform. */
export const platform = `${process.platform}-${process.arch}`;

export interface BackupFacts {
  readonly format: number;
  /** Version of Signpost. */
  readonly version: string;
  readonly platform: string;
  readonly started_at: string;
  readonly ended_at: string;
  /** The argument for `replay --from`, if the log has newer records. */
  readonly replay_from: string;
  /** Symbolic links to create, and their targets. */
  readonly links: Readonly<Record<string, string>>;
  /** Backups of earlier versions do not have the following, so nothing proves that they are complete. */
  readonly folders?: readonly string[];
  /** How many files SHA256SUMS lists, and its own checksum. */
  readonly files?: number;
  readonly checksums_sha256?: string;
}

/** @throws StartupError for a folder that this version cannot restore. */
export function readFacts(folder: string): BackupFacts {
  const file = join(folder, factsFile);
  if (!existsSync(file)) throw new StartupError(`${folder} is not a complete backup: ${file} is missing.`);
  const facts = parsed(file);
  if (facts.format !== backupFormat) {
    throw new StartupError(
      `${file} has format ${facts.format}, made by Signpost ${facts.version}: restore it with that version of Signpost.`,
    );
  }
  if (facts.platform !== platform) {
    throw new StartupError(
      `The backup was made on ${facts.platform} and can be restored only there, not on ${platform}.`,
    );
  }
  return facts;
}

function parsed(file: string): BackupFacts {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as BackupFacts;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new StartupError(`The backup is damaged: ${file} is not whole. Nothing was restored.`);
  }
}
