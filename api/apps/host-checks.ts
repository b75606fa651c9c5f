/**
 * Looks up the DNS records that verify claimed hosts (host_checks) until they exist.
 *
 * One check of a claim: its due time is postponed in Postgres (so that no other process checks it at the same time) →
 * DNS → the host is verified, or the problem is stored and the next check scheduled. Older claims are checked less
 * often: from every 15 s to once a day. Bounds: `batchMax` claims per pass, one pass at a time, each DNS response
 * within `dnsTimeoutMs`.
 */
import { Resolver } from 'node:dns/promises';
import { DAY_MS } from '#common/durations.ts';
import type { Log } from '#common/process/telemetry.ts';
import { Worker, type WorkerTime } from '#common/process/worker.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import { hostRecord } from './host.ts';

const lookMs = 5_000;
const batchMax = 20;
const dnsTimeoutMs = 2_000;
const dnsTries = 2;
/** No other process checks a claim within this time; longer than DNS may take. */
const leaseMs = 60_000;
const pauseMinMs = 15_000;
const pauseMaxMs = DAY_MS;

interface Claim {
  readonly app_id: string;
  readonly host: string;
  readonly age_ms: number;
}

export type HostProblem = 'record_missing' | 'record_differs' | 'dns_unavailable' | 'taken';

export interface HostChecksOptions {
  readonly db: Postgres;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** `address` or `address:port`; if empty, the system's servers. */
  readonly dnsServers: readonly string[];
  /** Notifies redirectors of committed changes. */
  readonly deliverChanges: () => Promise<boolean>;
  /** Replaced in tests. */
  readonly time?: WorkerTime;
}

const takeDue = `
  UPDATE host_checks SET due_at = now() + interval '${leaseMs} milliseconds'
   WHERE app_id IN (SELECT app_id FROM host_checks WHERE due_at NOT BETWEEN now() AND now() + interval '${2 * pauseMaxMs} milliseconds'
                     ORDER BY due_at LIMIT ${batchMax} FOR UPDATE SKIP LOCKED)
  RETURNING app_id, host, extract(epoch FROM now() - claimed_at)::float8 * 1000 AS age_ms`;
const keepProblem = `
  UPDATE host_checks SET checked_at = now(), problem = $3, due_at = now() + $4 * interval '1 millisecond' WHERE app_id = $1 AND host = $2`;
/** The app's host may have changed since the lookup; then this proof is for a different host. */
const verify = `
  UPDATE apps SET host_verified_at = now()
   WHERE id = $1 AND host = $2 AND deleted_at IS NULL AND host_verified_at IS NULL`;

export class HostChecks {
  readonly name = 'host checks';
  readonly #options: HostChecksOptions;
  readonly #resolver: Resolver;
  readonly #worker: Worker;

  constructor(options: HostChecksOptions) {
    this.#options = options;
    this.#resolver = new Resolver({ timeout: dnsTimeoutMs, tries: dnsTries });
    if (options.dnsServers.length > 0) this.#resolver.setServers(options.dnsServers);
    this.#worker = new Worker({
      ...{ name: this.name, pass: () => this.#pass(), everyMs: lookMs, log: options.log, time: options.time },
      ...{ failing: 'checking claimed hosts failed; retrying', working: 'claimed hosts are checked again' },
    });
  }

  start(): void {
    this.#worker.start();
  }

  async stop(): Promise<void> {
    this.#resolver.cancel();
    await this.#worker.stop();
  }

  /** Checks all due claims. Never rejects. */
  async look(): Promise<void> {
    await this.#worker.run();
  }

  async #pass(): Promise<void> {
    const due = await this.#options.db.query<Claim>(takeDue, [], 'take_due_host_checks');
    const verified = await Promise.all(due.map((claim) => this.#check(claim)));
    if (verified.includes(true)) await this.#options.deliverChanges();
  }

  /** @returns whether the host is verified now. */
  async #check({ app_id, host, age_ms }: Claim): Promise<boolean> {
    const { db, log } = this.#options;
    let problem = await this.#problemOf(host, app_id);
    if (problem === null) {
      try {
        const verified = await db.execute(verify, [app_id, host], 'verify_host');
        if (verified > 0) log.info({ app_id, host }, 'a host was verified; its links are now served');
        return verified > 0;
      } catch (error) {
        if (violatedConstraint(error) !== 'apps_host_key') throw error;
        problem = 'taken';
      }
    }
    const pauseMs = Math.min(Math.max(age_ms / 10, pauseMinMs), pauseMaxMs);
    await db.execute(keepProblem, [app_id, host, problem, pauseMs], 'keep_host_problem');
    return false;
  }

  async #problemOf(host: string, appId: string): Promise<HostProblem | null> {
    const { record_name, record_value } = hostRecord(host, appId);
    try {
      const records = await this.#resolver.resolveTxt(record_name);
      if (records.length === 0) return 'record_missing';
      return records.some((parts) => parts.join('').trim() === record_value) ? null : 'record_differs';
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : '';
      return code === 'ENOTFOUND' || code === 'ENODATA' || code === 'EBADNAME' ? 'record_missing' : 'dns_unavailable';
    }
  }
}
