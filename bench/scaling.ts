/**
 * Calculates what a rate of clicks needs from bench/results. `npm run bench -- scaling --rate 250000` prints one rate.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { packageRoot } from '#common/process/paths.ts';
import { settings } from '#common/process/settings.ts';

/** Microseconds of CPU per click, and bytes, as measured. */
export interface Measured {
  readonly redirector: number;
  /**
   * The additional cost of a new TLS connection if the redirector terminates TLS. Measured with the bare server, which
   * does nothing else.
   */
  readonly connection: number;
  /** nginx in front of redirectors, which terminates TLS instead and passes the visit on. */
  readonly proxy: number;
  readonly publisher: number;
  readonly nats: number;
  readonly ingest: number;
  readonly clickhouse: number;
  readonly postgres: number;
  readonly redis: number;
  /** In ClickHouse, raw rows and rollups, compressed. */
  readonly diskBytes: number;
}

interface Results {
  readonly visitors: {
    readonly figures: readonly { readonly server: string; readonly arrival: string; readonly us: number }[];
  };
  readonly redirect: { readonly figures: readonly { readonly case: string; readonly redirector_us: number }[] };
  readonly path: { readonly figures: readonly { readonly rate: number; readonly us: Record<string, number> }[] };
  readonly analytics: { readonly sizes: readonly { readonly clicks: number; readonly disk_gb: number }[] };
}

export function readMeasured(): Measured {
  const read = <Name extends keyof Results>(name: Name): Results[Name] =>
    JSON.parse(readFileSync(join(packageRoot(), 'bench', 'results', `${name}.json`), 'utf8')) as Results[Name];
  const redirect = read('redirect').figures.find((one) => one.case.startsWith('mixed'));
  const path = [...read('path').figures].sort((a, b) => b.rate - a.rate)[0];
  const disk = [...read('analytics').sizes].sort((a, b) => b.clicks - a.clicks)[0];
  const us = (name: string) => path?.us[name] ?? Number.NaN;
  const { figures } = read('visitors');
  const visit = (server: string, arrival: string) =>
    figures.find((one) => one.server === server && one.arrival === arrival)?.us ?? Number.NaN;
  const measured = {
    redirector: redirect?.redirector_us ?? Number.NaN,
    connection: visit('bare uWebSockets.js', newVisitor) - visit('bare uWebSockets.js', 'kept connection'),
    proxy: visit('redirector behind nginx', newVisitor) - visit('redirector', 'kept connection'),
    ...{ publisher: us('publisher'), nats: us('nats'), ingest: us('ingest'), clickhouse: us('clickhouse') },
    ...{ postgres: us('postgres'), redis: us('redis') },
    diskBytes: disk ? (disk.disk_gb * 1e9) / disk.clicks : Number.NaN,
  };
  const missing = Object.entries(measured).filter(([, value]) => !(value > 0));
  if (missing.length > 0) throw new Error(`bench/results has no ${missing.map(([name]) => name).join(', ')}`);
  return measured;
}

/**
 * A warning if the machine was busy with other work while visitors were measured, since figures are then too high;
 * otherwise empty.
 */
export function visitorsCaveat(): string {
  const text = readFileSync(join(packageRoot(), 'bench', 'results', 'visitors.json'), 'utf8');
  const { time, machine } = JSON.parse(text) as { time: string; machine: { cores: number; load_at_end: string } };
  const load = Number.parseFloat(machine.load_at_end);
  if (load <= 2 * machine.cores) return '';
  return `New connections were measured on ${time.slice(0, 10)} under a load of ${load.toFixed(0)} on ${machine.cores} cores, so those two figures are too high, and so are the rows that follow from them: 150 to 220 µs were seen for one on a quiet machine.`;
}

/** The arrival of a new visitor with current browsers and certificates. */
const newVisitor = 'TLS 1.3, ECDSA P-256, whole';

/** Assumptions for what bench/results does not have. The page names the source of each. */
export const assumed = {
  /** The share of a core that may be used at the peak: by processes that serve visitors, and by all others. */
  edgeLoad: 0.5,
  otherLoad: 0.7,
  coresOfMachine: 8,
  /** Bytes of one click in the journal and the log. */
  recordBytes: 600,
  natsReplicas: 3,
  /** Clicks of phones of apps with the platform, kept by address for `probabilistic_window_hours`. */
  comparableShare: 0.6,
  byAddressBytes: 178,
  byAddressHours: 6,
  /** Every click, kept by its id for some minutes. */
  byIdBytes: 129,
  byIdMinutes: 15,
  redisBytes: 16 * 2 ** 30,
  diskBytes: 4e12,
} as const;

const DAY_SECONDS = DAY_MS / SECOND_MS;
const HOUR_SECONDS = HOUR_MS / SECOND_MS;
const cores = (rate: number, microseconds: number, load: number) => (rate * microseconds) / 1e6 / load;
const machinesFor = (count: number) => Math.max(1, Math.ceil(count / assumed.coresOfMachine));

/** Bytes in Redis per click a second: the seconds of clicks that it holds, weighted by their bytes. */
const redisBytesPerRate =
  assumed.comparableShare * assumed.byAddressBytes * assumed.byAddressHours * HOUR_SECONDS +
  assumed.byIdBytes * assumed.byIdMinutes * (MINUTE_MS / SECOND_MS);

export interface Plan {
  readonly rate: number;
  /** Redirectors that terminate TLS, if every click is a new visitor. */
  readonly redirectors: number;
  /** Redirectors behind proxies, whose connections to them are persistent; and the cores of the proxies. */
  readonly proxiedRedirectors: number;
  readonly proxyCores: number;
  /** Machines with redirectors and a publisher; at least two, so that one may fail. */
  readonly edges: number;
  readonly natsCores: number;
  readonly ingestCores: number;
  readonly clickhouseCores: number;
  readonly redisCores: number;
  readonly postgresCores: number;
  readonly machines: number;
  /** LOG_PARTITIONS, and so ingests: a partition has one owner, which is one thread. */
  readonly partitions: number;
  /** An installation has one Redis process. */
  readonly installations: number;
  readonly logBytesPerSecond: number;
  readonly journalBytesPerHour: number;
  readonly logMinutes: number;
  readonly redisBytes: number;
  readonly diskBytesPerDay: number;
}

export function planFor(rate: number, us: Measured): Plan {
  const redirectors = Math.max(2, Math.ceil(cores(rate, us.redirector + us.connection, assumed.edgeLoad)));
  const proxiedRedirectors = Math.max(2, Math.ceil(cores(rate, us.redirector, assumed.edgeLoad)));
  const proxyCores = cores(rate, us.proxy, assumed.edgeLoad);
  const edgeCores = redirectors + cores(rate, us.publisher, assumed.otherLoad);
  const edges = Math.max(2, machinesFor(edgeCores));
  const natsCores = cores(rate, us.nats, assumed.otherLoad) * assumed.natsReplicas;
  const ingestCores = cores(rate, us.ingest, assumed.otherLoad);
  const clickhouseCores = cores(rate, us.clickhouse, assumed.otherLoad);
  const redisCores = cores(rate, us.redis, assumed.otherLoad);
  const postgresCores = cores(rate, us.postgres, assumed.otherLoad);
  const logBytesPerSecond = rate * assumed.recordBytes;
  return {
    ...{
      rate,
      redirectors,
      proxiedRedirectors,
      proxyCores,
      edges,
      natsCores,
      ingestCores,
      clickhouseCores,
      redisCores,
      postgresCores,
    },
    machines: edges + machinesFor(natsCores + ingestCores + clickhouseCores + redisCores + postgresCores),
    partitions: Math.ceil(rate / limits(us).ingest),
    installations: Math.ceil(rate / limits(us).redisCpu),
    logBytesPerSecond,
    journalBytesPerHour: (logBytesPerSecond * HOUR_SECONDS) / edges,
    logMinutes: settings.LOG_BYTES_MAX.fallback / logBytesPerSecond / 60,
    redisBytes: rate * redisBytesPerRate,
    diskBytesPerDay: rate * us.diskBytes * DAY_SECONDS,
  };
}

/** The rate of clicks at which each part is full with the default settings. */
export function limits(us: Measured) {
  return {
    disk: assumed.diskBytes / (us.diskBytes * DAY_SECONDS * settings.RETENTION_DAYS.fallback),
    journal: (settings.JOURNAL_BYTES_MAX.fallback / (assumed.recordBytes * HOUR_SECONDS)) * 2,
    redisMemory: assumed.redisBytes / redisBytesPerRate,
    ingest: (1e6 / us.ingest) * assumed.otherLoad,
    redirector: (1e6 / (us.redirector + us.connection)) * assumed.edgeLoad,
    proxiedRedirector: (1e6 / us.redirector) * assumed.edgeLoad,
    redisCpu: (1e6 / us.redis) * assumed.otherLoad,
    publisher: (1e6 / us.publisher) * assumed.otherLoad,
    nats: (1e6 / us.nats) * assumed.otherLoad,
    clickhouse: (1e6 / us.clickhouse) * assumed.otherLoad * assumed.coresOfMachine,
  } as const;
}

export type Limit = keyof ReturnType<typeof limits>;
