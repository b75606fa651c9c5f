/** Lookups of stored installs and events, needed while new records become rows. */
import type { RowOrigin } from '#clickhouse/rows.ts';
import type { InstallFacts } from '#common/attribution/recent-installs.ts';

export type IdKind = 'install' | 'event';

/** Records received at or after one time (epoch ms) that happened at or after another. */
export interface StoredRange {
  readonly receivedFromMs: number;
  readonly timeFromMs: number;
}

/** The id of a stored record, and its time of receipt (epoch ms). */
export interface StoredId {
  readonly app_id: string;
  readonly id: string;
  readonly at: number;
}

/** A stored record with one of the wanted ids. */
export interface StoredRecord extends RowOrigin {
  readonly log_partition: number;
  readonly app_id: string;
  readonly id: string;
  readonly received_at: number;
}

export interface StoredInstall extends InstallFacts {
  readonly app_id: string;
  readonly device_id: string;
}

/** Each operation may throw ClickHouseFailure and may be repeated. */
export interface StoredRecords {
  count(kind: IdKind, range: StoredRange): Promise<number>;
  /** All ids of a range, in chunks. */
  ids(kind: IdKind, range: StoredRange): AsyncIterable<readonly StoredId[]>;
  /** The records of these apps with one of these ids. */
  withIds(
    kind: IdKind,
    apps: readonly string[],
    ids: readonly string[],
    range: StoredRange,
  ): Promise<readonly StoredRecord[]>;
  /** The newest install of each of these ids in each of these apps. */
  newestInstalls(
    column: 'install_id' | 'device_id',
    apps: readonly string[],
    ids: readonly string[],
  ): Promise<readonly StoredInstall[]>;
}
