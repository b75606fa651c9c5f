/** What a backup says about itself, written last: a folder without this file is not a complete backup. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '#common/json-object.ts';
import { releaseVersion } from '#common/process/release.ts';
import { StartupError } from '#deploy/local/child.ts';

export const factsFile = 'backup.json';
/** The same without what proves it, among the files that have checksums: whoever edits one of both is noticed. */
export const provenFactsFile = 'facts.json';
export const backupFormat = 2;
/** Its facts have no checksum, and those of 0.2.0 and before do not prove that they are complete. */
export const earlierFormat = 1;
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
  /** Backups of 0.2.0 and before do not have the following, so nothing proves that they are complete. */
  readonly folders?: readonly string[];
  /** How many files SHA256SUMS lists, and its own checksum. */
  readonly files?: number;
  readonly checksums_sha256?: string;
}

const isTime = (value: unknown) => typeof value === 'string' && !Number.isNaN(Date.parse(value));
const isText = (value: unknown) => typeof value === 'string';
const required: Readonly<Record<string, (value: unknown) => boolean>> = {
  version: (value) => typeof value === 'string' && /^\d+\.\d+\.\d+/.test(value),
  platform: isText,
  started_at: isTime,
  ended_at: isTime,
  replay_from: isTime,
  links: (value) => isObject(value) && Object.values(value).every(isText),
};
const proof: typeof required = {
  folders: (value) => Array.isArray(value) && value.every(isText),
  files: Number.isSafeInteger,
  checksums_sha256: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
};

/** @throws StartupError for a folder that this version cannot restore. */
export function readFacts(folder: string): BackupFacts {
  const file = join(folder, factsFile);
  if (!existsSync(file)) throw new StartupError(`${folder} is not a complete backup: ${file} is missing.`);
  const facts = parsed(file);
  if (facts.format !== backupFormat && facts.format !== earlierFormat) {
    throw new StartupError(
      `${file} has format ${facts.format}, made by Signpost ${facts.version}: restore it with that version of Signpost.`,
    );
  }
  refuseDamaged(file, facts);
  if (isNewer(facts.version, releaseVersion())) {
    throw new StartupError(
      `The backup was made by Signpost ${facts.version}, and this is ${releaseVersion()}: restore it with that version or a newer one. Nothing was restored.`,
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
  let facts: unknown;
  try {
    facts = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  if (isObject(facts)) return facts as unknown as BackupFacts;
  throw new StartupError(`The backup is damaged: ${file} is not whole. Nothing was restored.`);
}

/** Backups have either all of the proof or, those of 0.2.0 and before, nothing of it. */
function refuseDamaged(file: string, facts: BackupFacts): void {
  const isProven = facts.format === backupFormat || Object.keys(proof).some((name) => name in facts);
  const wrong = Object.entries({ ...required, ...(isProven ? proof : {}) })
    .filter(([name, isRight]) => !isRight(Reflect.get(facts, name)))
    .map(([name]) => name);
  if (wrong.length === 0) return;
  throw new StartupError(
    `The backup is damaged: ${file} lacks ${wrong.join(', ')}, or has another value there than a backup writes. Nothing was restored.`,
  );
}

function isNewer(version: string, than: string): boolean {
  const [one, other] = [version, than].map((text) => text.split(/[.+-]/).slice(0, 3).map(Number));
  const at = [0, 1, 2].find((part) => one?.[part] !== other?.[part]);
  return at !== undefined && (one?.[at] ?? 0) > (other?.[at] ?? 0);
}
