/** The live ingest processes, the partitions, and their owners: the input for distributing partitions. */

export interface Member {
  readonly owner: string;
  /** The LOG_PARTITIONS with which it runs. */
  readonly partitions: number;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Null if its lease is free or has expired. */
  readonly owner: string | null;
}

export interface IngestMembership {
  /** Live ingest processes, in the order in which they joined. */
  readonly members: readonly Member[];
  /** Every partition that Postgres has any record of. */
  readonly owned: readonly OwnedPartition[];
  /** Whether a record in a partition other than that of its id was seen recently. */
  readonly areStraysRecent: boolean;
}

/** Each operation may fail with PostgresUnavailable and may be repeated. */
export interface Members {
  /** Sends a heartbeat that is valid for this many seconds. @returns the current state. */
  announce(me: Member, seconds: number): Promise<IngestMembership>;
  leave(owner: string): Promise<void>;
  reportStrays(): Promise<void>;
}
