/**
 * Injects one fault under load and checks the records: clicks and events run, the fault is injected, the load ends,
 * everything is restored, and the ledgers are compared with ClickHouse until nothing changes.
 */
import { sleep, systemTime } from '#common/time.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { ClickLoad } from './click-load.ts';
import { EventLoad } from './event-load.ts';
import { Ledger, type LedgerCounts, type Verdict } from './ledger.ts';
import type { StoredRecords } from './stored.ts';

/** The system that is under load. */
export interface LoadedSystem {
  /** The port of the redirectors. */
  readonly port: number;
  /** Addresses of redirectors and gateways, loopback if absent. */
  readonly addresses?: readonly string[];
  readonly host: string;
  readonly apiKey: string;
  readonly gatewayPorts: readonly number[];
  readonly stored: StoredRecords;
  newLink(path: string): Promise<{ readonly id: string; readonly short_code: string }>;
}

export interface RunOptions {
  readonly name: string;
  readonly seed: number;
  /** Minimum number of clicks; the load continues until the fault is over. */
  readonly clicks: number;
  readonly clicksPerSecond?: number;
  /** 0: no SDK events. */
  readonly eventSenders?: number;
  /** 0 if absent. */
  readonly installSenders?: number;
  readonly repeats?: number;
  /** A click without an answer is given up after this time. */
  readonly patienceMs?: number;
  /** Time within which everything must be in ClickHouse after the fault. */
  readonly settleMs?: number;
  /** Clicks that were answered without a record, as counted by the redirector; they may be missing. */
  readonly notRecorded?: () => Promise<number>;
}

/** What a fault can use and report while it runs. */
export interface Scene {
  readonly random: SeededRandom;
  readonly clicks: ClickLoad;
  /** Reports that a fault took effect. */
  hit(what: string): void;
}

export interface Figures {
  readonly lost: number;
  readonly duplicated: number;
  readonly phantom: number;
  readonly rollup_diff: number;
}

export interface Report extends Figures {
  readonly clicks: LedgerCounts;
  readonly events: LedgerCounts;
  readonly installs: LedgerCounts;
  readonly hits: ReadonlyMap<string, number>;
  /** From the end of the load to the last record in ClickHouse. */
  readonly settledMs: number;
  /** Connections that ended in the middle of a request. */
  readonly cut: number;
  /** Answers by status. */
  readonly answers: ReadonlyMap<number, number>;
  readonly examples: readonly string[];
}

const pollMs = 250;
/** The run ends when nothing new arrives for this long: a duplicated record would have arrived by then. */
const quietMs = 2_000;
const retriesMaxMs = 60_000;

export async function runFault(
  stage: LoadedSystem,
  options: RunOptions,
  fault: (scene: Scene) => Promise<void>,
): Promise<Report> {
  const { name, seed, clicksPerSecond = 1_000, eventSenders = 2, installSenders = 0 } = options;
  const { repeats = 0.3, settleMs = 60_000, patienceMs = 60_000 } = options;
  const random = new SeededRandom(seed);
  const link = await stage.newLink(`/${name.replaceAll(/[^a-z0-9]+/gi, '-')}`);
  const ledgers: Ledgers = { clicks: new Ledger(), events: new Ledger(), installs: new Ledger() };
  const addresses = stage.addresses ?? ['127.0.0.1'];
  const clicks = new ClickLoad({
    ...{ port: stage.port, host: stage.host, code: link.short_code, ledger: ledgers.clicks },
    ...{ rate: clicksPerSecond, visitors: 32, patienceMs, addresses },
  });
  const sdk = {
    ports: stage.gatewayPorts,
    apiKey: stage.apiKey,
    addresses,
    tag: link.id,
    random,
    pauseMs: 40,
    repeats,
  };
  const events = new EventLoad({ ...sdk, ledger: ledgers.events, batchEvents: 20, senders: eventSenders });
  const installs = new EventLoad({
    ...{ ...sdk, kind: 'installs' as const, ledger: ledgers.installs, batchEvents: 1, senders: installSenders },
  });
  const hits = new Map<string, number>();
  clicks.start();
  events.start();
  installs.start();
  try {
    await fault({ random, clicks, hit: (what) => void hits.set(what, (hits.get(what) ?? 0) + 1) });
    while (clicks.sent < options.clicks) await sleep(systemTime, pollMs);
  } finally {
    await Promise.all([clicks.stop(), events.stop(retriesMaxMs), installs.stop(retriesMaxMs)]);
  }
  const settled = await settle(stage, link.id, ledgers, options, settleMs);
  const report = {
    ...settled,
    ...{ clicks: ledgers.clicks.counts, events: ledgers.events.counts, installs: ledgers.installs.counts, hits },
    ...{ cut: clicks.cut + events.cut, answers: sumOf([clicks.answers, events.answers, installs.answers]) },
  };
  console.log(lineOf(name, seed, report));
  return report;
}

function sumOf(counts: readonly ReadonlyMap<number, number>[]): Map<number, number> {
  const sum = new Map<number, number>();
  for (const [status, times] of counts.flatMap((one) => [...one])) sum.set(status, (sum.get(status) ?? 0) + times);
  return sum;
}

interface Ledgers {
  readonly clicks: Ledger;
  readonly events: Ledger;
  readonly installs: Ledger;
}

type Settled = Figures & Pick<Report, 'settledMs' | 'examples'>;

async function settle(
  stage: LoadedSystem,
  linkId: string,
  ledgers: Ledgers,
  options: RunOptions,
  settleMs: number,
): Promise<Settled> {
  const startedMs = Date.now();
  let changedMs = startedMs;
  let before = '';
  for (;;) {
    const isLate = Date.now() - startedMs > settleMs;
    const seen = await look(stage, linkId, ledgers, options).catch((error: unknown) => {
      if (isLate) throw error;
      return undefined;
    });
    if (seen && seen.print !== before) {
      changedMs = Date.now();
      before = seen.print;
    }
    if (seen && (isLate || (seen.lost === 0 && Date.now() - changedMs > quietMs))) {
      const { print: _, ...verdict } = seen;
      return { ...verdict, rollup_diff: await stage.stored.rollupDifference(), settledMs: changedMs - startedMs };
    }
    await sleep(systemTime, pollMs);
  }
}

/** Compares both ledgers with what is stored now; `print` changes when anything does. */
async function look(
  stage: LoadedSystem,
  linkId: string,
  ledgers: Ledgers,
  options: RunOptions,
): Promise<Verdict & { print: string }> {
  const allowed = (await options.notRecorded?.()) ?? 0;
  const stored = await Promise.all([
    stage.stored.clicks(linkId),
    stage.stored.events(linkId),
    ledgers.installs.counts.sent === 0 ? new Map<number, number>() : stage.stored.installs(linkId),
  ]);
  const clicks = ledgers.clicks.judge(stored[0]);
  const all = { click: clicks, event: ledgers.events.judge(stored[1]), install: ledgers.installs.judge(stored[2]) };
  const sum = (what: 'lost' | 'duplicated' | 'phantom') => all.click[what] + all.event[what] + all.install[what];
  const verdict = {
    lost: sum('lost') - Math.min(clicks.lost, allowed),
    duplicated: sum('duplicated'),
    phantom: sum('phantom'),
    examples: Object.entries(all).flatMap(([kind, { examples }]) => examples.map((text) => `${kind}: ${text}`)),
  };
  return { ...verdict, print: `${stored.map(({ size }) => size).join(' ')} ${JSON.stringify(verdict)}` };
}

function lineOf(name: string, seed: number, report: Report): string {
  const { clicks, events, installs, lost, duplicated, phantom, rollup_diff } = report;
  const hits = [...report.hits].map(([what, times]) => `${what} ${times}×`).join(', ') || 'none';
  const counts = (of: LedgerCounts) => `${of.kept} kept, ${of.unknown} unknown, ${of.refused} refused`;
  const answers = [...report.answers].map(([status, times]) => `${status || 'cut'}: ${times}`).join(', ');
  return [
    `${name} (seed ${seed}): hit ${hits}`,
    `  clicks ${counts(clicks)}; events ${counts(events)}; installs ${counts(installs)}`,
    `  answers ${answers}; settled in ${report.settledMs} ms`,
    `  lost ${lost}, duplicated ${duplicated}, phantom ${phantom}, rollup_diff ${rollup_diff}`,
    ...report.examples.map((example) => `  ${example}`),
  ].join('\n');
}
