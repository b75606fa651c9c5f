/** How the SDK edge asks ingest for a click that Redis does not have: a request over NATS, answered from ClickHouse. */
import { isObject } from '#common/json-object.ts';
import type { RecentClick } from './click-lines.ts';

const CHARS_MAX = 16_384;

export interface ArchiveQuestion {
  readonly organization_id: string;
  readonly app_id: string;
  readonly click_id: string;
}

/** A click, and the device or install that has it. */
export interface ArchivedClick {
  readonly click: RecentClick;
  readonly claimed_by: string;
}

/**
 * `unknown`: the app has no such click. `pending`: ClickHouse does not have it, but does not have all records of that
 * time yet. `unavailable`: it can't be looked up now.
 */
export type ArchiveAnswer = ArchivedClick | 'unknown' | 'pending' | 'unavailable';

/** Parses a request; null if it is malformed. */
export function readArchiveQuestion(bytes: Buffer): ArchiveQuestion | null {
  const value = parse(bytes);
  if (!isObject(value)) return null;
  const { organization_id, app_id, click_id } = value;
  if (typeof organization_id !== 'string' || typeof app_id !== 'string' || typeof click_id !== 'string') return null;
  return { organization_id, app_id, click_id };
}

/**
 * The wire format: an edge of an earlier version reads null as an unknown click, and what it can't parse as no answer.
 */
export function archiveAnswerJson(answer: ArchiveAnswer): string {
  if (answer === 'unknown') return 'null';
  return JSON.stringify(typeof answer === 'string' ? { status: answer } : answer);
}

/** Parses an answer; `unavailable` if it is malformed. */
export function readArchiveAnswer(bytes: Buffer): ArchiveAnswer {
  const value = parse(bytes);
  if (value === null) return 'unknown';
  if (!isObject(value)) return 'unavailable';
  if (value['status'] === 'pending') return 'pending';
  if (!isObject(value['click']) || typeof value['claimed_by'] !== 'string') return 'unavailable';
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
