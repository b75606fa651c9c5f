/** Looks clicks up for the gateway that Redis has lost. */
import { type ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { type ArchiveAnswer, type ArchiveQuestion, readArchiveQuestion } from '#common/attribution/click-archive.ts';
import type { RecentClick } from '#common/attribution/recent-click.ts';
import { isId, timeOfId } from '#common/ids.ts';
import type { Nats } from '#common/stores/nats.ts';

/** Look-ups at a time; more are not answered, and the gateway goes on without them. */
const OPEN_MAX = 20;
/** A click's id is at most this much older than its time. */
const MARGIN_MS = 60_000;

export class ClickLookupServer {
  /** Since the start of the process. */
  readonly counters = { questions: 0, found: 0, turned_away: 0, failures: 0 };
  readonly #clickhouse: ClickHouse;
  #open = 0;

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse;
  }

  /** @returns a function that stops serving. */
  serve(nats: Nats): () => void {
    return nats.subscribe(nats.names.archive, ({ bytes, reply }) => {
      const question = readArchiveQuestion(bytes);
      if (!question || reply === '') return;
      if (this.#open >= OPEN_MAX) {
        this.counters.turned_away++;
        return;
      }
      this.#open++;
      this.counters.questions++;
      this.find(question)
        .then((answer) => nats.publish(reply, Buffer.from(JSON.stringify(answer))))
        .catch((error: unknown) => {
          if (!(error instanceof ClickHouseFailure)) throw error;
          this.counters.failures++;
        })
        .finally(() => {
          this.#open--;
        });
    });
  }

  /** @throws ClickHouseFailure */
  async find({ app_id, click_id }: ArchiveQuestion): Promise<ArchiveAnswer> {
    if (!isId('clk', click_id) || !isId('app', app_id)) return null;
    const time = timeOfId(click_id);
    const params = { app_id, click_id, from: time - MARGIN_MS, to: time + MARGIN_MS };
    const [click] = await this.#clickhouse.query<RecentClick>(
      `SELECT click_id, app_id, link_id, toUnixTimestamp64Milli(time) AS time, query, campaign,
              utm_source, utm_medium, utm_campaign, utm_term, utm_content, is_bot
         FROM clicks
        WHERE app_id = {app_id:String} AND click_id = {click_id:String}
          AND clicks.time BETWEEN fromUnixTimestamp64Milli({from:Int64}) AND fromUnixTimestamp64Milli({to:Int64})
        LIMIT 1`,
      params,
    );
    if (!click) return null;
    const [owner] = await this.#clickhouse.query<{ device_id: string; install_id: string }>(
      `SELECT device_id, install_id FROM installs
        WHERE app_id = {app_id:String} AND click_id = {click_id:String} AND time >= fromUnixTimestamp64Milli({from:Int64})
        LIMIT 1`,
      params,
    );
    this.counters.found++;
    return { click, claimed_by: owner ? owner.device_id || owner.install_id : '' };
  }
}
