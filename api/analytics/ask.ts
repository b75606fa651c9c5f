/** Runs ClickHouse queries through the fair queue and within their limits. */
import { ClickHouseFailure, isClickHouseOutage } from '#clickhouse/client.ts';
import type { Question } from '#clickhouse/queries/scope.ts';
import { invalid, type Rejection, rateLimited, unavailable } from '#common/http/rejection.ts';
import type { AnalyticsParts } from './deps.ts';

/** Error codes of queries that are too large. Source: ClickHouse's ErrorCodes.cpp. */
const tooLarge = new Set([
  158, // TOO_MANY_ROWS
  159, // TIMEOUT_EXCEEDED
  160, // TOO_SLOW
  241, // MEMORY_LIMIT_EXCEEDED
  307, // TOO_MANY_BYTES
  396, // TOO_MANY_ROWS_OR_BYTES
]);

export class QueryRunner {
  readonly #parts: AnalyticsParts;
  readonly #tenant: string;
  #hasBegun = false;

  /** @param tenant whose slot in the queue is used. */
  constructor(parts: AnalyticsParts, tenant: string) {
    this.#parts = parts;
    this.#tenant = tenant;
  }

  async rows<Row>({ sql, params, settings }: Question): Promise<Row[] | Rejection> {
    const { clickhouse, limits } = this.#parts;
    return this.#inTurn(() => clickhouse.query<Row>(sql, params, { ...settings, ...limits }));
  }

  /** Runs queries concurrently, and combines their rows. */
  async together<Row>(questions: readonly Question[]): Promise<Row[] | Rejection> {
    const { clickhouse, limits } = this.#parts;
    return this.#inTurn(async () => {
      const lots = await Promise.all(
        questions.map(({ sql, params, settings }) => clickhouse.query<Row>(sql, params, { ...settings, ...limits })),
      );
      return lots.flat();
    });
  }

  async #inTurn<Row>(work: () => Promise<Row[]>): Promise<Row[] | Rejection> {
    try {
      const begin = () => {
        this.#hasBegun = true;
        return work();
      };
      const rows = await this.#parts.queue.run(this.#tenant, begin, this.#hasBegun);
      return rows === 'full' ? rateLimited(1) : rows;
    } catch (error) {
      return rejectionOf(error);
    }
  }

  /** Call before querying figures, so that `as_of` never claims more than they contain. */
  asOf(): Promise<number> {
    return this.#parts.asOf();
  }
}

/** @throws errors that no caller can handle. */
export function rejectionOf(error: unknown): Rejection {
  if (!(error instanceof ClickHouseFailure)) throw error;
  if (tooLarge.has(error.code)) {
    return invalid(
      'start',
      'the query takes too long or covers too many records: use a shorter range, one app or link, or fewer filters; if it is small, try again later',
    );
  }
  if (isClickHouseOutage(error)) return unavailable('Analytics are unavailable. Try again later.');
  throw error;
}
