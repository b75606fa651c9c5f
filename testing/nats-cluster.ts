/** Three NATS servers on loopback that form a cluster, as for LOG_REPLICAS=3. Each can be killed and started again. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '#common/json-object.ts';
import { defaultNames } from '#common/log/log-names.ts';
import { searchPath } from '#common/process/config.ts';
import { Nats } from '#common/stores/nats.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startServer } from '#deploy/local/local-server.ts';
import { findNats, natsPayloadBytesMax } from '#deploy/local/nats.ts';
import { type NatsRole, natsPasswords, natsUsers } from '#deploy/local/nats-users.ts';
import { answers, freePort } from '#deploy/local/ports.ts';

export const clusterSize = 3;
const electedWithinMs = 60_000;
const pollMs = 100;

interface Node {
  readonly dataDir: string;
  readonly port: number;
  readonly routePort: number;
  server: LocalServer;
}

export class NatsCluster {
  readonly #folder: string;
  readonly #nodes: Node[];
  readonly #password: (role: NatsRole) => string;

  private constructor(folder: string, nodes: Node[]) {
    this.#folder = folder;
    this.#nodes = nodes;
    this.#password = (role) => natsPasswords(folder)[role];
  }

  static async start(): Promise<NatsCluster> {
    const folder = mkdtempSync(join(tmpdir(), 'signpost-nats-cluster-'));
    const ports: number[] = [];
    for (let n = 0; n < 2 * clusterSize; n++) ports.push(await freePort());
    const places = Array.from({ length: clusterSize }, (_, n) => {
      const dataDir = join(folder, `node-${n}`);
      mkdirSync(dataDir);
      return { dataDir, port: ports[2 * n] ?? 0, routePort: ports[2 * n + 1] ?? 0 };
    });
    const routes = places.map(({ routePort }) => `nats://127.0.0.1:${routePort}`);
    const users = natsUsers(natsPasswords(folder), defaultNames);
    const nodes = places.map((place, n) => {
      const lines = [
        `listen: "127.0.0.1:${place.port}"`,
        `server_name: "node-${n}"`,
        `max_payload: ${natsPayloadBytesMax}`,
        `cluster { name: "signpost", listen: "127.0.0.1:${place.routePort}", routes: ${JSON.stringify(routes)} }`,
        `jetstream { store_dir: ${JSON.stringify(join(place.dataDir, 'store'))}, sync_interval: "1s", max_file_store: 1TB }`,
        ...users,
      ];
      writeFileSync(join(place.dataDir, 'nats.conf'), `${lines.join('\n')}\n`, { mode: 0o600 });
      return place;
    });
    const servers = await Promise.all(nodes.map(startNode));
    return new NatsCluster(
      folder,
      nodes.map((node, n) => ({ ...node, server: servers[n] as LocalServer })),
    );
  }

  /** All servers, for one of their users. */
  urlOf(role: NatsRole): string {
    return this.#nodes.map(({ port }) => `nats://${role}:${this.#password(role)}@127.0.0.1:${port}`).join(',');
  }

  get url(): string {
    return this.urlOf('operator');
  }

  /** Waits until a server leads the replicas of the log. @returns which. */
  async leader(): Promise<number> {
    const nats = await Nats.connect({ url: this.url, name: 'test', installation: defaultNames.installation });
    try {
      for (const deadline = Date.now() + electedWithinMs; Date.now() < deadline; ) {
        const answer = await nats.request(defaultNames.api('STREAM.INFO'));
        const info: unknown = answer?.status === 0 ? JSON.parse(answer.bytes.toString()) : {};
        const cluster = isObject(info) && isObject(info.cluster) ? info.cluster : {};
        const [, node] = /^node-(\d)$/.exec(String(cluster.leader)) ?? [];
        if (node !== undefined) return Number(node);
        await sleep(systemTime, pollMs);
      }
      throw new Error('the log has no leader');
    } finally {
      await nats.close();
    }
  }

  /** kill -9. */
  async kill(node: number): Promise<void> {
    const { server } = this.#node(node);
    server.kill('SIGKILL');
    await server.stop();
  }

  async revive(node: number): Promise<void> {
    const one = this.#node(node);
    if (one.server.hasExited()) one.server = await startNode(one);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map(({ server }) => server.stop()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #node(node: number): Node {
    const one = this.#nodes[node];
    if (one === undefined) throw new Error(`the cluster has no server ${node}`);
    return one;
  }
}

function startNode({ dataDir, port }: { readonly dataDir: string; readonly port: number }): Promise<LocalServer> {
  return startServer(
    { dataDir, port },
    {
      name: 'nats',
      command: () => ({
        command: findNats(),
        args: ['-c', join(dataDir, 'nats.conf')],
        env: { PATH: searchPath() },
        cwd: '/',
      }),
      url: () => `nats://127.0.0.1:${port}`,
      isReady: () => answers({ host: '127.0.0.1', port }, '', 'INFO '),
      readyTimeoutMs: 30_000,
    },
  );
}
