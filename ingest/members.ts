/** Which ingests live, which partitions there are, and who owns them: the basis on which partitions are shared. */

export interface Member {
  readonly owner: string;
  /** The LOG_PARTITIONS that it runs with. */
  readonly partitions: number;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Null when its lease is free or has expired. */
  readonly owner: string | null;
}

export interface IngestMembership {
  /** Living ingests, in the order in which they joined. */
  readonly members: readonly Member[];
  /** Every partition with anything in Postgres. */
  readonly owned: readonly OwnedPartition[];
  /** Whether a record in another partition than its id's was seen recently. */
  readonly areStraysRecent: boolean;
}

/** Each operation may fail with PostgresUnavailable and may be repeated. */
export interface Members {
  /** A heartbeat that is valid for so many seconds. @returns the present state. */
  announce(me: Member, seconds: number): Promise<IngestMembership>;
  leave(owner: string): Promise<void>;
  reportStrays(): Promise<void>;
}
