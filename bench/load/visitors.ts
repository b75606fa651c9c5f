/**
 * Measures what a visit costs the server depending on how the visitor arrives: on a kept connection, on a new one, and
 * over TLS with a whole or a resumed handshake. All servers take turns in one run. CPU comes from /proc, so the client
 * may be slower than the server.
 */
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { packageRoot } from '#common/process/paths.ts';
import { writeResult } from './result-file.ts';
import { benchHost, openStage, pathOf } from './stage.ts';
import { Subject } from './subject.ts';
import { type KeyKind, keyKinds, threadsCpuUs, type VisitedServer, VisitorServers } from './visitor-servers.ts';
import type { Visited, Visits } from './visits-client.ts';

interface Arrival extends Pick<Visits, 'connection' | 'version' | 'isResumed'> {
  readonly name: string;
  readonly key?: KeyKind;
}

const tls = (key: KeyKind, version: 'TLSv1.2' | 'TLSv1.3', isResumed: boolean): Arrival => ({
  name: `${version.replace('TLSv', 'TLS ')}, ${key}, ${isResumed ? 'resumed' : 'whole'}`,
  ...{ key, version, isResumed, connection: 'tls' },
});

const arrivals: readonly Arrival[] = [
  { name: 'kept connection', connection: 'kept' },
  { name: 'new connection', connection: 'tcp' },
  ...keyKinds.flatMap((key) => [
    ...[tls(key, 'TLSv1.3', false), tls(key, 'TLSv1.3', true)],
    ...[tls(key, 'TLSv1.2', false), tls(key, 'TLSv1.2', true)],
  ]),
];

/** Visits before the first round, so that the code is compiled when measuring begins. */
const warmUpVisits = 20_000;
/** Visits on kept connections are so cheap that more are needed to measure them. */
const keptFactor = 10;
const atOnce = 64;

interface Figure {
  readonly server: string;
  readonly arrival: string;
  /** CPU microseconds of all its processes per visit; the median of the rounds. */
  readonly us: number;
  readonly rounds: readonly number[];
  /** The share of visits that resumed a session. */
  readonly resumed: number;
}

interface Measured {
  readonly us: number;
  readonly resumed: number;
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const tell = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

export async function benchVisitors(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      visits: { type: 'string', default: '1000' },
      rounds: { type: 'string', default: '3' },
      warm: { type: 'string', default: String(warmUpVisits) },
    },
  });
  execFileSync(process.execPath, ['build.mjs', '--if-stale'], { cwd: packageRoot(), stdio: 'inherit' });
  const stage = await openStage(1, tell);
  const servers = new VisitorServers(stage);
  const client = Subject.start('client', 'bench/load/visits-client.ts', {});
  try {
    const started = await servers.start();
    const measure = async (server: VisitedServer, arrival: Arrival, count: number) => {
      const { port, pids } = server.entrances[arrival.key ?? 'plain'];
      const cpu = () => pids.reduce((sum, pid) => sum + threadsCpuUs(pid), 0);
      const before = cpu();
      const resumed = await visit(client, { name: server.name, port }, arrival, count);
      return { us: (cpu() - before) / count, resumed: resumed / count };
    };
    const found = new Map<string, Measured[]>();
    for (const server of started) {
      tell(`${server.name}: warming up`);
      for (const arrival of arrivals) {
        await measure(server, arrival, arrival.connection === 'kept' ? Number(values.warm) : 50);
      }
    }
    for (let round = 1; round <= Number(values.rounds); round++) {
      for (const arrival of arrivals) {
        for (const server of started) {
          const key = `${server.name}\n${arrival.name}`;
          const count = Number(values.visits) * (arrival.connection === 'kept' ? keptFactor : 1);
          found.set(key, [...(found.get(key) ?? []), await measure(server, arrival, count)]);
        }
        tell(`round ${round}: ${arrival.name}`);
      }
    }
    report(
      [...found].map(([key, measured]) => {
        const [server = '', arrival = ''] = key.split('\n');
        const rounds = measured.map(({ us }) => us);
        return { server, arrival, us: median(rounds), rounds, resumed: median(measured.map(({ resumed }) => resumed)) };
      }),
      Number(values.visits),
    );
  } finally {
    await client.stop();
    await servers.stop();
    await stage.close();
  }
}

/** @returns how many visits resumed a session. */
async function visit(
  client: Subject,
  server: { readonly name: string; readonly port: number },
  arrival: Arrival,
  count: number,
): Promise<number> {
  const { name, key: _, ...manner } = arrival;
  const visits: Visits = { ...manner, port: server.port, host: benchHost, path: pathOf(1), count, atOnce };
  const line = client.line(/^\{.*\}$/m);
  client.write(`${JSON.stringify(visits)}\n`);
  const visited = JSON.parse((await line)[0]) as Visited | { readonly failed: string };
  if ('failed' in visited) throw new Error(`${server.name}, ${name}: ${visited.failed}`);
  if (!arrival.isResumed && visited.resumed > 0) throw new Error(`${server.name}, ${name}: sessions were resumed`);
  return visited.resumed;
}

function report(figures: readonly Figure[], visits: number): void {
  const names = [...new Set(figures.map(({ server }) => server))];
  const rows = arrivals.map(({ name }) => {
    const of = (server: string) => {
      const figure = figures.find((one) => one.server === server && one.arrival === name);
      if (!figure) return '';
      const isPartly = name.endsWith('resumed') && figure.resumed < 1;
      return figure.us.toFixed(0) + (isPartly ? ` (${(100 * figure.resumed).toFixed(0)} % resumed)` : '');
    };
    return { arrival: name, ...Object.fromEntries(names.map((server) => [server, of(server)])) };
  });
  console.table(rows);
  writeResult('visitors', { visits_per_round: visits, at_once: atOnce, figures });
}
