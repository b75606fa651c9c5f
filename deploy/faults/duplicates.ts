/**
 * Sends events, many of them twice, while the gateway and ingest are killed; then reads all totals, from raw rows and
 * through the API.
 */
import { sleep, systemTime } from '#common/time.ts';
import { residentMib } from '#deploy/journeys/memory.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { Purchases, type Sums, sumOf } from './purchases.ts';
import { RepeatedLoad } from './repeated-load.ts';
import type { Stage } from './stage.ts';

export interface DuplicatesOptions {
  readonly events: number;
  readonly batchEvents: number;
  /** Number of `kill -9` for each of two processes, the gateway and ingest, spread over the run. */
  readonly kills: number;
  readonly seed: number;
}

export interface DuplicatesReport {
  /** The expected figures. */
  readonly expected: Sums;
  /** From the rows in ClickHouse. */
  readonly raw: Sums & { readonly ids: number };
  /** From the API: totals, and the sums over time series, links and campaigns. */
  readonly viaApi: Readonly<Record<string, Pick<Sums, 'events' | 'conversions' | 'revenue'>>>;
  readonly viaApiByLink: Readonly<Record<string, number>>;
  readonly rollup_diff: number;
  /** Peak memory of each process, by name. */
  readonly mostMib: Readonly<Record<string, number>>;
}

const watched = ['origin', 'ingest', 'publisher'];
const repeats = 0.3;
const quietMs = 3_000;
const settleMaxMs = 600_000;

export async function runDuplicates(stage: Stage, options: DuplicatesOptions): Promise<DuplicatesReport> {
  const { events, batchEvents, seed } = options;
  const random = new SeededRandom(seed);
  const links = [await stage.newLink('/one'), await stage.newLink('/two'), await stage.newLink('/three')];
  const tag = `twice-${links[0]?.id}`;
  const purchases = new Purchases(
    tag,
    links.map(({ id }) => id),
    Date.now(),
  );
  const load = new RepeatedLoad({
    ...{ port: stage.stack.apiPort, apiKey: stage.apiKey, events, batchEvents, repeats, random, senders: 4 },
    event: (number) => purchases.event(number),
  });
  const memory = watchMemory(stage);
  const startedMs = Date.now();
  let killed = 0;
  try {
    const running = load.run();
    killed = await killAlong(stage, load, options.kills, random);
    await running;
    const sentMs = Date.now() - startedMs;
    const settledMs = await settle(stage, tag, events);
    const report = {
      expected: purchases.sums(events),
      ...(await figures(
        stage,
        tag,
        links.map(({ id }) => id),
      )),
      mostMib: memory.most,
    };
    const answers = [...load.answers].map(([status, n]) => `${status || 'cut'}: ${n}`).join(', ');
    console.log(
      [
        `duplicates (seed ${seed}): ${events} events in ${load.requests} requests, ${load.repeats} of them repeats; hit ${killed} kills`,
        `  answers ${answers}; accepted ${load.accepted}, reported as duplicates ${load.duplicates}, rejected ${load.rejected};` +
          ` dropped by ingest ${load.accepted - events}; sent in ${sentMs} ms, settled in ${settledMs} ms`,
        `  expected ${JSON.stringify(report.expected)}`,
        `  raw      ${JSON.stringify(report.raw)}`,
        `  viaApi     ${JSON.stringify(report.viaApi)}`,
        ...(await doubled(stage, tag)).map((line) => `  doubled: ${line}`),
        `  rollup_diff ${report.rollup_diff}; peak MiB ${JSON.stringify(memory.most)}`,
      ].join('\n'),
    );
    return report;
  } finally {
    memory.stop();
  }
}

/** One kill in each of that many equal parts of the run, alternating between the edge and ingest. */
async function killAlong(stage: Stage, load: RepeatedLoad, kills: number, random: SeededRandom): Promise<number> {
  let killed = 0;
  for (const [at, name] of Array.from({ length: kills }, () => ['origin', 'ingest'])
    .flat()
    .entries()) {
    const from = (at + random.next()) / (kills * 2 + 1);
    while (load.progress < from) await sleep(systemTime, 20);
    await stage.processes.kill(name);
    killed++;
  }
  return killed;
}

/** Waits until all events are stored and nothing has changed for a while. */
async function settle(stage: Stage, tag: string, events: number): Promise<number> {
  const startedMs = Date.now();
  let [before, changedMs] = [-1, startedMs];
  for (;;) {
    const rows = await stage.stored
      .ask(`SELECT count() FROM events WHERE startsWith(event_id, '${tag}-')`)
      .then(Number, () => -1);
    if (rows !== before) changedMs = Date.now();
    before = rows;
    const isQuiet = Date.now() - changedMs > quietMs;
    if ((rows >= events && isQuiet) || Date.now() - startedMs > settleMaxMs) return changedMs - startedMs;
    await sleep(systemTime, 200);
  }
}

async function figures(
  stage: Stage,
  tag: string,
  linkIds: readonly string[],
): Promise<Omit<DuplicatesReport, 'expected' | 'mostMib'>> {
  const whole = `FROM events WHERE startsWith(event_id, '${tag}-')`;
  const pairs = async (query: string) =>
    (await stage.stored.ask(`${query} FORMAT TSV`)).split('\n').map((line) => line.split('\t'));
  const counts = async (column: string) =>
    Object.fromEntries(
      (await pairs(`SELECT ${column}, count() ${whole} GROUP BY 1`)).map(([key, n]) => [key, Number(n)]),
    );
  const [[rows, ids, conversions] = []] = await pairs(
    `SELECT count(), uniqExact(event_id), countIf(is_conversion) ${whole}`,
  );
  const revenue = await pairs(
    `SELECT revenue_currency, toString(sum(revenue_amount)) ${whole} AND revenue_currency != '' GROUP BY 1`,
  );
  const raw = {
    ...{ events: Number(rows), ids: Number(ids), conversions: Number(conversions) },
    ...{ byName: await counts('name'), byLink: await counts('link_id'), revenue: Object.fromEntries(revenue) },
  };
  return { raw, ...(await figuresFromApi(stage, linkIds)), rollup_diff: await stage.stored.rollupDifference() };
}

/** For diagnosis: rows with the same id, grouped by the batches that stored them. */
async function doubled(stage: Stage, tag: string): Promise<string[]> {
  const text = await stage.stored.ask(
    `SELECT count(), places, any(ids) FROM (
       SELECT arraySort(groupArray((log_partition, batch_no, producer_id, frame_no, toString(received_at)))) AS places, any(event_id) AS ids
         FROM events WHERE startsWith(event_id, '${tag}-') GROUP BY event_id HAVING count() > 1
     ) GROUP BY places ORDER BY places LIMIT 20 FORMAT TSV`,
  );
  return text === '' ? [] : text.split('\n');
}

interface ApiFigures {
  readonly link_id?: string;
  readonly events: number;
  readonly conversions: number;
  readonly revenue: readonly { readonly currency: string; readonly amount: string }[];
}

async function figuresFromApi(
  stage: Stage,
  linkIds: readonly string[],
): Promise<Pick<DuplicatesReport, 'viaApi' | 'viaApiByLink'>> {
  const call = await stage.stack.loggedIn();
  const ask = async <T>(path: string): Promise<T> => {
    const reply = await call(`/analytics/${path}link_id=${linkIds.join(',')}&interval=7d`);
    if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.text}`);
    return reply.json<T>();
  };
  const { totals } = await ask<{ totals: ApiFigures }>('overview?');
  const hours = await ask<{ data: ApiFigures[] }>('timeseries?granularity=hour&');
  const links = await ask<{ data: ApiFigures[] }>('top-links?limit=100&sort_by=events&');
  const campaigns = await ask<{ data: ApiFigures[] }>('top-campaigns?limit=100&sort_by=events&');
  return {
    viaApi: {
      overview: added([totals]),
      timeseries: added(hours.data),
      links: added(links.data),
      campaigns: added(campaigns.data),
    },
    viaApiByLink: Object.fromEntries(links.data.map(({ link_id = '', events }) => [link_id, events])),
  };
}

function added(rows: readonly ApiFigures[]): Pick<Sums, 'events' | 'conversions' | 'revenue'> {
  const revenue: Record<string, string> = {};
  let [events, conversions] = [0, 0];
  for (const row of rows) {
    events += row.events;
    conversions += row.conversions;
    for (const { currency, amount } of row.revenue) revenue[currency] = sumOf(revenue[currency] ?? '0', amount);
  }
  return { events, conversions, revenue };
}

function watchMemory(stage: Stage): { readonly most: Record<string, number>; stop(): void } {
  const most: Record<string, number> = {};
  const timer = setInterval(() => {
    for (const name of watched) {
      try {
        const mib = residentMib(stage.stack.pidOf(name));
        if (mib > (most[name] ?? 0)) most[name] = mib;
      } catch {
        // It was just killed.
      }
    }
  }, 250);
  return { most, stop: () => clearInterval(timer) };
}
