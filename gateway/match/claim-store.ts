/** Claims as they stand in Postgres, and their only SQL on the edge's side. Ingest deletes expired ones. */
import type { Queries } from '#common/postgres.ts';

export interface Claim {
  readonly click_id: string;
  readonly app_id: string;
  /** Empty where the app names no device. */
  readonly device: string;
  readonly match_id: string;
  /** The match as JSON. */
  readonly answer: string;
}

export interface NewClaim extends Claim {
  readonly hours: number;
}

export interface DeviceName {
  readonly app_id: string;
  readonly device: string;
}

/** Every method throws PostgresUnavailable when Postgres is not there. */
export interface ClaimStore {
  /** Stores those whose click and whose device have no claim yet. @returns how many were stored. */
  insert(claims: readonly NewClaim[]): Promise<number>;
  /** The claims on these clicks, and those of these devices. */
  find(clickIds: readonly string[], devices: readonly DeviceName[]): Promise<Claim[]>;
  byMatchId(matchId: string): Promise<Claim | null>;
}

export class PostgresClaimStore implements ClaimStore {
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  async insert(claims: readonly NewClaim[]): Promise<number> {
    const column = (of: (claim: NewClaim) => unknown) => claims.map(of);
    return await this.#db.execute(
      `INSERT INTO claims (click_id, app_id, device, match_id, answer, expires_at)
       SELECT click_id, app_id, device, match_id, answer, now() + make_interval(hours => hours)
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[])
           AS given (click_id, app_id, device, match_id, answer, hours)
        ORDER BY click_id
       ON CONFLICT DO NOTHING`,
      [
        column((claim) => claim.click_id),
        column((claim) => claim.app_id),
        column((claim) => claim.device),
        column((claim) => claim.match_id),
        column((claim) => claim.answer),
        column((claim) => claim.hours),
      ],
      'insert_claims',
    );
  }

  async find(clickIds: readonly string[], devices: readonly DeviceName[]): Promise<Claim[]> {
    return await this.#db.query<Claim>(
      `SELECT click_id, app_id, device, match_id, answer FROM claims WHERE click_id = ANY ($1::text[])
       UNION
       SELECT c.click_id, c.app_id, c.device, c.match_id, c.answer
         FROM unnest($2::text[], $3::text[]) AS given (app_id, device)
         JOIN claims c ON c.app_id = given.app_id AND c.device = given.device AND c.device <> ''`,
      [clickIds, devices.map(({ app_id }) => app_id), devices.map(({ device }) => device)],
      'find_claims',
    );
  }

  async byMatchId(matchId: string): Promise<Claim | null> {
    const [row] = await this.#db.query<Claim>(
      'SELECT click_id, app_id, device, match_id, answer FROM claims WHERE match_id = $1',
      [matchId],
      'claim_by_match',
    );
    return row ?? null;
  }
}
