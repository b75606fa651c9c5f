/** Which ingests live, what there is to own, and who owns it: what the partitions are shared out by. */

export interface Member {
  readonly owner: string;
  /** LOG_PARTITIONS as it runs with it. */
  readonly partitions: number;
}

export interface OwnedPartition {
  readonly partition: number;
  /** Null when its lease is free or has expired. */
  readonly owner: string | null;
}

export interface IngestMembership {
  /** Those that live, in the order in which they joined. */
  readonly members: readonly Member[];
  /** Every partition of which anything is kept. */
  readonly owned: readonly OwnedPartition[];
  /** Whether a record in another partition than its id's was met a short while ago. */
  readonly areStraysRecent: boolean;
}

/** Each operation may fail with PostgresUnavailable and may be repeated. */
export interface Members {
  /** A heartbeat: lives for so many seconds more. @returns what there is, as of now. */
  announce(me: Member, seconds: number): Promise<IngestMembership>;
  leave(owner: string): Promise<void>;
  reportStrays(): Promise<void>;
  /**
   * Gives up what is kept of a partition that nothing is kept for any more: no mark, no batch.
   * @returns whether it was given up.
   */
  retire(partition: number, owner: string): Promise<boolean>;
}
