/**
 * Answers the SDK edge's questions about clicks that Redis does not have; several ingest processes share the questions.
 * A click that is not stored may still be in the pipeline, through an outage of any length, so it is unknown only when
 * all edges' records of its time are stored.
 */
import { type ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import {
  type ArchiveAnswer,
  type ArchiveQuestion,
  archiveAnswerJson,
  readArchiveQuestion,
} from '#common/attribution/click-archive.ts';
import { type Clock, systemClock } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';
import { isId, timeOfId } from '#common/ids.ts';
import type { Nats } from '#common/stores/nats.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import { Turns } from '#common/turns.ts';
import { ClickHouseClicks } from './stored-clicks.ts';

/** Maximum concurrent lookups, maximum waiting questions, and their maximum wait; the edge waits for one second. */
const openMax = 8;
const waitingMax = 500;
const waitMsMax = 800;
/** NATS queue group: each question goes to one ingest process. */
const group = 'ingest';
/** How long the last known ingest position may be reused. */
const asOfFreshMs = 500;
/** Without this limit, an edge that never returns would keep made-up ids pending forever. */
const pendingMaxMs = DAY_MS;
/** An id is created shortly before its record is written. */
const marginMs = 1_000;

export class ClickLookupServer {
  /** Since the start of the process. */
  readonly counters = { questions: 0, found: 0, pending: 0, turned_away: 0, failures: 0 };
  readonly #clickhouse: ClickHouse;
  readonly #clicks: ClickHouseClicks;
  readonly #postgres: Queries;
  readonly #clock: Clock;
  readonly #turns = new Turns({ openMax, waitingMax, waitMsMax });
  #asOf: { readonly readAt: number; readonly read: Promise<number | null> } | undefined;

  constructor(clickhouse: ClickHouse, postgres: Queries, clock: Clock = systemClock) {
    this.#clock = clock;
    this.#clickhouse = clickhouse;
    this.#clicks = new ClickHouseClicks(clickhouse);
    this.#postgres = postgres;
  }

  /** @returns a function that ends the subscription. */
  serve(nats: Nats): () => void {
    const onQuestion = async (question: ArchiveQuestion, reply: string) => {
      const answer = await this.answer(question);
      nats.publish(reply, Buffer.from(archiveAnswerJson(answer)));
    };
    return nats.subscribe(
      nats.names.archive,
      ({ bytes, reply }) => {
        const question = readArchiveQuestion(bytes);
        if (question && reply !== '') void onQuestion(question, reply);
      },
      { group },
    );
  }

  async answer(question: ArchiveQuestion): Promise<ArchiveAnswer> {
    this.counters.questions++;
    const hasTurn = await this.#turns.begin().then(
      () => true,
      () => false,
    );
    if (!hasTurn) {
      this.counters.turned_away++;
      return 'unavailable';
    }
    try {
      const answer = await this.#find(question);
      if (answer === 'pending') this.counters.pending++;
      else if (typeof answer !== 'string') this.counters.found++;
      return answer;
    } catch (error) {
      if (!(error instanceof ClickHouseFailure) && !(error instanceof PostgresUnavailable)) throw error;
      this.counters.failures++;
      return 'unavailable';
    } finally {
      this.#turns.end();
    }
  }

  /** @throws ClickHouseFailure, PostgresUnavailable */
  async #find({ organization_id, app_id, click_id }: ArchiveQuestion): Promise<ArchiveAnswer> {
    if (!isId('clk', click_id) || !isId('app', app_id)) return 'unknown';
    // Read before the lookup, so that the lookup also sees clicks stored in between.
    const asOf = await this.#readAsOf().catch(ifUnavailable);
    const [[click], [owner]] = await Promise.all([
      this.#clicks.find({ organizations: [organization_id], apps: [app_id], ids: [click_id] }),
      this.#owners(organization_id, app_id, click_id),
    ]);
    if (click) return { click, claimed_by: owner ? owner.device_id || owner.install_id : '' };
    if (asOf instanceof PostgresUnavailable) throw asOf;
    const time = timeOfId(click_id);
    const isOnItsWay = asOf !== null && asOf < time + marginMs && this.#clock() - time < pendingMaxMs;
    return isOnItsWay ? 'pending' : 'unknown';
  }

  async #owners(organization_id: string, app_id: string, click_id: string) {
    return await this.#clickhouse.query<{ device_id: string; install_id: string }>(
      `SELECT device_id, install_id FROM installs
        WHERE organization_id = {organization_id:String} AND app_id = {app_id:String} AND click_id = {click_id:String}
          AND time >= fromUnixTimestamp64Milli({from:Int64})
        LIMIT 1`,
      { organization_id, app_id, click_id, from: timeOfId(click_id) },
    );
  }

  /** The time up to which all accepted records of all edges are stored; null if no edge has ever reported. */
  #readAsOf(): Promise<number | null> {
    const now = performance.now();
    if (this.#asOf === undefined || now - this.#asOf.readAt >= asOfFreshMs) {
      const read = this.#postgres
        .query<{ as_of: number | null }>('SELECT min(committed_to) AS as_of FROM ingest.progress', [], 'archive_as_of')
        .then((rows) => rows[0]?.as_of ?? null);
      this.#asOf = { readAt: now, read };
    }
    return this.#asOf.read;
  }
}

/** Defers the failure: a stored click answers the question without Postgres. */
function ifUnavailable(error: unknown): PostgresUnavailable {
  if (error instanceof PostgresUnavailable) return error;
  throw error;
}
