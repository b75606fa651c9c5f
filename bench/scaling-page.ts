/** The text of docs/scaling.md, calculated from bench/results; `npm run generate` writes the file. */
import { parseArgs } from 'node:util';
import { settings } from '#common/process/settings.ts';
import {
  assumed,
  type Limit,
  limits,
  type Measured,
  type Plan,
  planFor,
  readMeasured,
  visitorsCaveat,
} from './scaling.ts';

export const rates = [10_000, 100_000, 1_000_000];

const count = (value: number) => value.toLocaleString('en-US', { maximumSignificantDigits: 2 });
const exact = (value: number) => value.toLocaleString('en-US');
const micro = (value: number) => (value < 1 ? value.toFixed(2) : value.toFixed(1));

function bytes(value: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
  const at = Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${count(value / 1000 ** at)} ${units[at]}`;
}

/** What is full, and what an operator does about it. */
const remedies: Record<Limit, readonly [what: string, remedy: string]> = {
  disk: [
    `${bytes(assumed.diskBytes)} of disk for ClickHouse, at \`RETENTION_DAYS\` = ${settings.RETENTION_DAYS.fallback}`,
    '`RETENTION_DAYS`; more disk',
  ],
  journal: [
    'the journals of two machines, if a store is unavailable for an hour',
    '`JOURNAL_BYTES_MAX`; more redirector machines. At the limit, redirects continue unrecorded',
  ],
  redisMemory: [
    'Redis with 16 GiB: recent clicks for matching by address',
    '`maxmemory`; a smaller `probabilistic_window_hours` of the apps. At the limit, `volatile-lru` drops the oldest clicks, which shortens the window',
  ],
  ingest: [
    `one ingest, which \`LOG_PARTITIONS\` = ${settings.LOG_PARTITIONS.fallback} allows`,
    '`LOG_PARTITIONS`, and an ingest for each: partitions get equal shares of the clicks',
  ],
  redirector: [
    'one redirector that terminates TLS, at half load, if every click is a new visitor',
    '`REDIRECTOR_PROCESSES`, more machines',
  ],
  proxiedRedirector: ['one redirector behind a proxy, at half load', '`REDIRECTOR_PROCESSES`, more machines'],
  redisCpu: [
    'one Redis process',
    'no setting: an installation has one. Divide the hosts between installations (`INSTALLATION`, separate databases)',
  ],
  publisher: ['the publisher of one machine', 'more redirector machines, because each machine has one publisher'],
  nats: ['one core of NATS', 'NATS uses several cores; the maximum rate of one stream was not measured'],
  clickhouse: [
    `ClickHouse with ${assumed.coresOfMachine} cores, for inserts alone`,
    'more cores; inserts go to one server',
  ],
};

function row(name: string, plans: readonly Plan[], value: (plan: Plan) => string): string {
  return `| ${name} | ${plans.map(value).join(' | ')} |`;
}

/** The table of what each rate needs. */
export function needs(plans: readonly Plan[]): string {
  return [
    `| Clicks per second | ${plans.map(({ rate }) => exact(rate)).join(' | ')} |`,
    `|---|${plans.map(() => '---').join('|')}|`,
    row('redirectors that terminate TLS, each on one core', plans, ({ redirectors }) => exact(redirectors)),
    row('or redirectors behind nginx', plans, ({ proxiedRedirectors }) => exact(proxiedRedirectors)),
    row('and cores for that nginx', plans, ({ proxyCores }) => count(proxyCores)),
    row('machines with redirectors and a publisher', plans, ({ edges }) => exact(edges)),
    row(`cores for NATS, ${assumed.natsReplicas} replicas`, plans, ({ natsCores }) => count(natsCores)),
    row('cores for ingest', plans, ({ ingestCores }) => count(ingestCores)),
    row('cores for ClickHouse', plans, ({ clickhouseCores }) => count(clickhouseCores)),
    row('cores for Redis', plans, ({ redisCores }) => count(redisCores)),
    row('cores for Postgres', plans, ({ postgresCores }) => count(postgresCores)),
    row(
      `**machines of ${assumed.coresOfMachine} cores in all, by CPU alone**`,
      plans,
      ({ machines }) => `**${exact(machines)}**`,
    ),
    row('`LOG_PARTITIONS`, and ingests', plans, ({ partitions }) => exact(partitions)),
    row('**installations**, because each has one Redis process', plans, ({ installations }) => `**${installations}**`),
    row('journals and log', plans, ({ logBytesPerSecond }) => `${bytes(logBytesPerSecond)}/s`),
    row('`JOURNAL_BYTES_MAX` for an hour without NATS', plans, ({ journalBytesPerHour }) => bytes(journalBytesPerHour)),
    row('minutes that the default log holds', plans, ({ logMinutes }) => count(logMinutes)),
    row('memory of Redis', plans, ({ redisBytes }) => bytes(redisBytes)),
    row('disk of ClickHouse, per day', plans, ({ diskBytesPerDay }) => bytes(diskBytesPerDay)),
    row('the same, 90 days', plans, ({ diskBytesPerDay }) => bytes(diskBytesPerDay * 90)),
    row('the same, 730 days', plans, ({ diskBytesPerDay }) => bytes(diskBytesPerDay * 730)),
  ].join('\n');
}

/** What is full between two rates, in order. */
function broken(us: Measured, above: number, upTo: number): string {
  const found = (Object.entries(limits(us)) as [Limit, number][])
    .filter(([, limit]) => limit > above && limit <= upTo)
    .sort(([, a], [, b]) => a - b);
  const lines = found.map(([name, limit]) => `| ${count(limit)} | ${remedies[name][0]} | ${remedies[name][1]} |`);
  return ['| Full at | What | What to change |', '|---|---|---|', ...lines].join('\n');
}

export function scalingPage(us: Measured = readMeasured()): string {
  const steps = rates.map((rate, at) => {
    const from = at === 0 ? 0 : (rates[at - 1] ?? 0);
    const title = at === 0 ? `Up to ${exact(rate)} clicks per second` : `From ${exact(from)} to ${exact(rate)}`;
    return `### ${title}\n\n${broken(us, from, rate)}\n`;
  });
  const needsSection = `## What each rate needs

${needs(rates.map((rate) => planFor(rate, us)))}

In addition to the clicks, queries need CPU in ClickHouse
([how much](measurements.md#analytics-npm-run-bench----analytics)), and SDK events need gateways, ingest, and disk
([per event](measurements.md#an-event-at-the-sdk-edge-npm-run-bench----events)).
`;
  const fullSection = `## What is full first

With the default settings, in order. Each row is the rate of clicks per second at which one part is full while everything else has room.

${steps.join('\n')}`;
  const caveat = visitorsCaveat();
  return `# Scaling

This page says what a rate of clicks needs, and which part is full first, for operators who size an installation. It is a calculation from
measurements on two cores. **No rate above 20,000 clicks per second through the whole path was run, and no more than one machine.** On that
machine, two of each process with a log on three NATS servers were run under kills (\`deploy/faults/cluster.fault.ts\`).

\`npm run bench -- scaling --rate 250000\` calculates any other rate. \`npm run generate\` writes this page from \`bench/results\`;
\`npm run check\` fails if it does not match.

${needsSection}
${fullSection}
## What it is calculated from

| Part | µs of CPU per click | Measured by |
|---|---|---|
| redirector, 80 % of the links in memory, 15 % in Redis, 5 % unknown | ${micro(us.redirector)} | \`npm run bench -- redirect\` |
| redirector, in addition, for a new connection with TLS 1.3, an ECDSA certificate and a whole handshake | ${micro(us.connection)} | \`npm run bench -- visitors\` |
| nginx in front, for the same connection and passing the visit on | ${micro(us.proxy)} | the same |
| publisher | ${micro(us.publisher)} | \`npm run bench -- path\`, at its highest rate |
| NATS, one server | ${micro(us.nats)} | the same |
| ingest | ${micro(us.ingest)} | the same |
| ClickHouse, raw rows and rollups | ${micro(us.clickhouse)} | the same |
| Redis | ${micro(us.redis)} | the same |
| Postgres | ${micro(us.postgres)} | the same |

| Assumption | Value |
|---|---|
| bytes of a click in ClickHouse, with rollups, compressed | ${count(us.diskBytes)}, \`npm run bench -- analytics\` |
| bytes of a click in the journal and the log | ${assumed.recordBytes}; 400 to 700 were seen |
| bytes of a click in Redis | ${assumed.byAddressBytes} for ${assumed.byAddressHours} hours (${assumed.comparableShare * 100} % of the clicks: phones of apps with the platform) and ${assumed.byIdBytes} for ${assumed.byIdMinutes} minutes ([measured](measurements.md#recent-clicks-in-redis)) |
| load at the peak | ${assumed.edgeLoad * 100} % of a core for redirectors, ${assumed.otherLoad * 100} % for everything else |
| visitors | each click is a new TLS connection that resumes no session; machines are counted with redirectors that terminate TLS |
| NATS | ${assumed.natsReplicas} replicas, each as expensive as the one that was measured (assumed) |
| more partitions | cost nothing. With 4 of them and two ingests, a click cost 3 to 10 % more ([measured](measurements.md#the-record-path-npm-run-bench----path)), because batches are smaller and rollups have a row per cell and partition |

The files in \`bench/results\` say when each bench ran and under which load. The machines of these runs were not equally fast:
[measurements.md](measurements.md#the-record-path-npm-run-bench----path) also has figures of the record path from slower ones, up to twice as
high.
${caveat === '' ? '' : `\n${caveat}\n`}`;
}

/** `npm run bench -- scaling`: the same table for any rates. */
export function printScaling(args: readonly string[]): void {
  const { values } = parseArgs({ args: [...args], options: { rate: { type: 'string', default: rates.join(',') } } });
  const wanted = values.rate.split(',').map(Number);
  if (wanted.some((rate) => !(rate > 0))) throw new Error('--rate must be clicks per second, separated by commas');
  const us = readMeasured();
  console.log(needs(wanted.map((rate) => planFor(rate, us))));
}
