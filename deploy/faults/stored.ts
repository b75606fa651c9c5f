/**
 * Reads what ClickHouse has stored, over HTTP and independently of Signpost's client: how often each record is stored,
 * and whether rollups add up.
 */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { type Rollup, rollups } from '#clickhouse/rollups.ts';

const numbersPerAnswer = 1_000_000;

export class StoredRecords {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** Clicks of a link by the number in their query. A query that is not a number counts as 0. */
  clicks(linkId: string): Promise<Map<number, number>> {
    return this.#numbers(
      `SELECT toUInt32OrZero(extract(query, '^n=([0-9]+)$')) AS n FROM clicks WHERE link_id = '${linkId}'`,
    );
  }

  /** Events whose id is the tag, a hyphen and a number. */
  events(tag: string): Promise<Map<number, number>> {
    return this.#numbers(
      `SELECT toUInt32OrZero(substring(event_id, ${tag.length + 2})) AS n FROM events WHERE startsWith(event_id, '${tag}-')`,
    );
  }

  /** Installs whose id is the tag, a hyphen and a number. */
  installs(tag: string): Promise<Map<number, number>> {
    return this.#numbers(
      `SELECT toUInt32OrZero(substring(install_id, ${tag.length + 2})) AS n FROM installs WHERE startsWith(install_id, '${tag}-')`,
    );
  }

  async rowsOf(table: string): Promise<number> {
    return Number(await this.ask(`SELECT count() FROM ${table}`));
  }

  /** Records by which a rollup differs from its raw table, summed over all its keys and all rollups. */
  async rollupDifference(): Promise<number> {
    let sum = 0;
    for (const rollup of rollups) sum += Number(await this.ask(differenceOf(rollup)));
    return sum;
  }

  /** Uses `http` because `fetch` rejects a password in a URL and sends browser headers. */
  async ask(query: string): Promise<string> {
    const { origin, username, password, searchParams } = new URL(this.#url);
    const socketPath = searchParams.get('socket') ?? undefined;
    const auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    const asked = request(origin, { method: 'POST', auth, socketPath, signal: AbortSignal.timeout(120_000) }).end(
      query,
    );
    const [response]: IncomingMessage[] = await once(asked, 'response');
    if (response === undefined) throw new Error('ClickHouse did not answer');
    const answer = (await text(response)).trim();
    if (response.statusCode !== 200) {
      throw new Error(`ClickHouse answered ${response.statusCode}: ${answer.slice(0, 300)}`);
    }
    return answer;
  }

  /** How often each number is stored, queried in ranges: a soak stores millions. */
  async #numbers(query: string): Promise<Map<number, number>> {
    const numbers = new Map<number, number>();
    const largest = Number(await this.ask(`SELECT max(n) FROM (${query})`));
    for (let from = 0; from <= largest; from += numbersPerAnswer) {
      const inRange = `n >= ${from} AND n < ${from + numbersPerAnswer}`;
      const counted = await this.ask(`SELECT n, count() FROM (${query}) WHERE ${inRange} GROUP BY n FORMAT TSV`);
      for (const line of counted.split('\n')) {
        const [number = '', times = ''] = line.split('\t');
        if (number !== '') numbers.set(Number(number), Number(times));
      }
    }
    return numbers;
  }
}

function differenceOf({ table, select }: Rollup): string {
  const own = table.endsWith('_by_link') ? 'link_id, campaign' : 'dimension, value';
  const keys = `toString(tuple(organization_id, app_id, ${own}, bucket))`;
  return `SELECT sum(abs(raw - rolled)) FROM (
    SELECT key, sumIf(n, side = 'raw') AS raw, sumIf(n, side = 'rolled') AS rolled FROM (
      SELECT ${keys} AS key, toInt64(rows) AS n, 'raw' AS side FROM (${select('1')})
      UNION ALL
      SELECT ${keys} AS key, toInt64(rows) AS n, 'rolled' AS side FROM ${table}
    ) GROUP BY key)`;
}
