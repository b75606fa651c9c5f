/**
 * What a process says about its stores: the first failure at warn, and then one line in `storeWarningMs` for each store
 * as long as it fails. The others are at debug.
 */
import { MINUTE_MS } from '#common/durations.ts';
import type { Log } from './telemetry.ts';

export const storeWarningMs = 5 * MINUTE_MS;
/** A request that fails within this time after a store did is put down to it. */
const blamedMs = MINUTE_MS;

export type StoreName = 'Postgres' | 'Redis' | 'ClickHouse' | 'NATS';

interface Said {
  readonly atMs: number;
  unsaid: number;
}

interface Failure {
  readonly store: StoreName;
  readonly reason: string;
  readonly atMs: number;
}

export class StoreLog {
  readonly #log: Pick<Log, 'warn' | 'debug'>;
  readonly #elapsed: () => number;
  readonly #said = new Map<string, Said>();
  #last: Failure | undefined;

  /** @param elapsed milliseconds of a monotonic clock. */
  constructor(log: Pick<Log, 'warn' | 'debug'>, elapsed = () => performance.now()) {
    this.#log = log;
    this.#elapsed = elapsed;
  }

  /** For the client of a store. @param setting where its URL is. */
  of(store: StoreName, setting: string): (error: unknown) => void {
    return (error) => {
      const reason = reasonOf(error);
      this.#last = { store, reason, atMs: this.#elapsed() };
      if (isRefusal(error))
        this.#say(
          `${store} refuses`,
          { store, reason },
          `${store} refuses the user of ${setting}, its password or a permission`,
        );
      else this.#say(store, { store, reason }, `${store} is unavailable`);
    };
  }

  /** For a request that was answered with 500. @param route as metrics name it. */
  requestFailed(route: string, request_id: string): void {
    const last = this.#last !== undefined && this.#elapsed() - this.#last.atMs < blamedMs ? this.#last : undefined;
    const fields = { request_id, route, ...(last && { store: last.store, reason: last.reason }) };
    this.#say(`request ${last?.store ?? ''}`, fields, 'a request was answered with 500');
  }

  #say(key: string, fields: object, line: string): void {
    const nowMs = this.#elapsed();
    const said = this.#said.get(key);
    if (said !== undefined && nowMs - said.atMs < storeWarningMs) {
      said.unsaid++;
      this.#log.debug(fields, line);
      return;
    }
    this.#said.set(key, { atMs: nowMs, unsaid: 0 });
    const unsaid = said?.unsaid ?? 0;
    this.#log.warn({ ...fields, ...(unsaid > 0 && { more_since_last_line: unsaid }) }, line);
  }
}

/** Of several attempts (IPv4 and IPv6), an error has a code but no message. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

/** SQLSTATE class 28, and ClickHouse's UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED. */
const refusalCodes = /^(28\w{3}|192|193|194|497|516)$/;
/** The beginnings of such errors of Redis and of NATS. */
const refusalTexts = /^(NOAUTH|WRONGPASS|NOPERM|'?Authorization Violation|'?Permissions Violation|NATS refuses)/i;

function isRefusal(error: unknown): boolean {
  if (!(error instanceof Error)) return refusalTexts.test(String(error));
  return refusalTexts.test(error.message) || ('code' in error && refusalCodes.test(String(error.code)));
}
