/** Stores claims in Postgres; all SQL of the edge on claims. Ingest deletes expired ones. */
import type { Queries } from '#common/stores/postgres.ts';

export interface ClickClaim {
  readonly click_id: string;
  readonly app_id: string;
  /** Empty if the app sends no device id. */
  readonly device: string;
  readonly match_id: string;
  /** The match as JSON. */
  readonly answer: string;
  /**
   * Whether this claim is the device's answer until it brings new evidence; false for a later click of a returning
   * device.
   */
  readonly is_first: boolean;
  /** Whether the claim is a re-engagement with an opening that is not yet known to be in the journal. */
  readonly is_open_due: boolean;
}

export interface NewClaim extends Omit<ClickClaim, 'is_open_due'> {
  readonly hours: number;
  /** Epoch milliseconds of the click. */
  readonly clicked_at: number;
  /** An identifier of the device's install (install-store.ts); empty if an install made the claim. */
  readonly install_name: string;
}

export interface StoredClaims {
  readonly stored: number;
  /** Clicks of the re-engagements among the stored claims. */
  readonly open_due: readonly string[];
}

export interface DeviceName {
  readonly app_id: string;
  readonly device: string;
}

/** Every method throws PostgresUnavailable if Postgres does not answer. */
export interface ClaimStore {
  /**
   * Stores the claims whose click has none yet; a first claim only if its device has none. A claim of a device whose
   * install is older than the click is a re-engagement.
   */
  insert(claims: readonly NewClaim[]): Promise<StoredClaims>;
  /** The claims on these clicks, and the first claims of these devices. */
  find(clickIds: readonly string[], devices: readonly DeviceName[]): Promise<ClickClaim[]>;
  byMatchId(matchId: string): Promise<ClickClaim | null>;
  /** Records that the journal has the opening. */
  opened(clickId: string): Promise<void>;
}

const columns = 'c.click_id, c.app_id, c.device, c.match_id, c.answer, c.is_first, c.is_open_due';

export class PostgresClaimStore implements ClaimStore {
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  async insert(claims: readonly NewClaim[]): Promise<StoredClaims> {
    const column = (of: (claim: NewClaim) => unknown) => claims.map(of);
    // Returns one row however many claims were stored, because parsing rows is this process's largest cost here.
    const [row] = await this.#db.query<StoredClaims>(
      `WITH stored AS (INSERT INTO claims (click_id, app_id, device, match_id, answer, expires_at, is_first, is_open_due)
       SELECT click_id, app_id, device, match_id, answer, now() + make_interval(hours => hours), is_first,
              install_name <> '' AND EXISTS (
                SELECT FROM install_names n JOIN install_answers a ON a.app_id = n.app_id AND a.install_id = n.install_id
                 WHERE n.app_id = given.app_id AND n.name = given.install_name AND a.created_at < given.clicked_at)
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::boolean[], $8::timestamptz[], $9::text[])
           AS given (click_id, app_id, device, match_id, answer, hours, is_first, clicked_at, install_name)
        ORDER BY click_id
       ON CONFLICT DO NOTHING
       RETURNING click_id, is_open_due)
       SELECT count(*)::integer AS stored, coalesce(array_agg(click_id) FILTER (WHERE is_open_due), '{}') AS open_due FROM stored`,
      [
        column((claim) => claim.click_id),
        column((claim) => claim.app_id),
        column((claim) => claim.device),
        column((claim) => claim.match_id),
        column((claim) => claim.answer),
        column((claim) => claim.hours),
        column((claim) => claim.is_first),
        column((claim) => new Date(claim.clicked_at)),
        column((claim) => claim.install_name),
      ],
      'insert_claims',
    );
    return row ?? { stored: 0, open_due: [] };
  }

  async find(clickIds: readonly string[], devices: readonly DeviceName[]): Promise<ClickClaim[]> {
    return await this.#db.query<ClickClaim>(
      `SELECT ${columns} FROM claims c WHERE click_id = ANY ($1::text[])
       UNION
       SELECT ${columns}
         FROM unnest($2::text[], $3::text[]) AS given (app_id, device)
         JOIN claims c ON c.app_id = given.app_id AND c.device = given.device AND c.device <> '' AND c.is_first`,
      [clickIds, devices.map(({ app_id }) => app_id), devices.map(({ device }) => device)],
      'find_claims',
    );
  }

  async byMatchId(matchId: string): Promise<ClickClaim | null> {
    const [row] = await this.#db.query<ClickClaim>(
      `SELECT ${columns} FROM claims c WHERE match_id = $1`,
      [matchId],
      'claim_by_match',
    );
    return row ?? null;
  }

  async opened(clickId: string): Promise<void> {
    await this.#db.execute(
      'UPDATE claims SET is_open_due = false WHERE click_id = $1 AND is_open_due',
      [clickId],
      'claim_opened',
    );
  }
}
