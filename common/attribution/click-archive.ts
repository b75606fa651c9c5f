/** How the SDK edge asks ingest for a click that Redis has lost: a request over NATS, answered from ClickHouse. */
import { isObject } from '#common/json-object.ts';
import type { RecentClick } from './recent-click.ts';

const CHARS_MAX = 16_384;

export interface ArchiveQuestion {
  readonly app_id: string;
  readonly click_id: string;
}

/** The click, and the device or install that has it; null if the app has no such click. */
export type ArchiveAnswer = { readonly click: RecentClick; readonly claimed_by: string } | null;

/** Parses a request; null if it is malformed. */
export function readArchiveQuestion(bytes: Buffer): ArchiveQuestion | null {
  const value = parse(bytes);
  if (!isObject(value)) return null;
  const { app_id, click_id } = value;
  return typeof app_id === 'string' && typeof click_id === 'string' ? { app_id, click_id } : null;
}

/** Parses an answer; undefined if it is malformed. */
export function readArchiveAnswer(bytes: Buffer): ArchiveAnswer | undefined {
  const value = parse(bytes);
  if (value === null) return null;
  if (!isObject(value) || !isObject(value['click']) || typeof value['claimed_by'] !== 'string') return undefined;
  // Written by our own ingest from its own columns.
  return { click: value['click'] as unknown as RecentClick, claimed_by: value['claimed_by'] };
}

function parse(bytes: Buffer): unknown {
  if (bytes.length > CHARS_MAX) return undefined;
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
