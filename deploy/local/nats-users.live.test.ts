/** Each process may use only its own subjects of the log. */
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultInstallation as installation, defaultNames as names } from '#common/log/log-names.ts';
import { ensureLogStream } from '#common/log/log-stream.ts';
import { inboxPrefixOf, Nats } from '#common/stores/nats.ts';
import { type NatsServer, startNats } from './nats.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'signpost-nats-users-'));
const roles = ['publisher', 'ingest', 'gateway', 'api', 'operator'] as const;
type Role = (typeof roles)[number];
let server: NatsServer;
const clients = new Map<Role, Nats>();
const refusals: string[] = [];

const as = (role: Role): Nats => {
  const client = clients.get(role);
  if (client === undefined) throw new Error(`${role} is not connected`);
  return client;
};

beforeAll(async () => {
  server = await startNats({ dataDir });
  for (const role of roles) {
    const onRefusal = (line: string) => refusals.push(`${role}: ${line}`);
    clients.set(role, await Nats.connect({ url: server.urlOf(role), name: role, installation, onRefusal }));
  }
  await ensureLogStream(as('publisher'), { bytesMax: 16_777_216, replicas: 1 }, {});
});

afterAll(async () => {
  for (const client of clients.values()) await client.close();
  await server.stop();
  rmSync(dataDir, { recursive: true });
});

/** Whether a message that this role publishes to the subject arrives; the operator subscribes to everything. */
async function mayPublish(role: Role, subject: string): Promise<boolean> {
  let hasArrived = false;
  const end = as('operator').subscribe(subject, () => {
    hasArrived = true;
  });
  await as('operator').flush();
  as(role).publish(subject, Buffer.from('x'));
  await as(role).flush();
  await as('operator').flush();
  end();
  return hasArrived;
}

async function mayListen(role: Role, subject: string): Promise<boolean> {
  let hasArrived = false;
  const end = as(role).subscribe(subject, () => {
    hasArrived = true;
  });
  await as(role).flush();
  as('operator').publish(subject, Buffer.from('x'));
  await as('operator').flush();
  await as(role).flush();
  end();
  return hasArrived;
}

const api = (verb: string) => `$JS.API.${verb}`;
/** subject, who may publish to it, who may subscribe to it. */
const subjects: [string, Role[], Role[]][] = [
  ['log.click.0', ['publisher'], []],
  [names.marks, ['ingest'], ['publisher']],
  [names.marksRequest, ['publisher'], ['ingest']],
  [names.progress, ['publisher'], ['ingest']],
  [names.archive, ['gateway'], ['ingest']],
  [api('STREAM.INFO.log'), ['publisher', 'ingest', 'api'], []],
  [api('STREAM.DELETE.log'), [], []],
  [api('STREAM.MSG.GET.log'), [], []],
  [api('DIRECT.GET.log'), [], []],
  [api('STREAM.NAMES'), [], []],
  [api('STREAM.INFO.other'), [], []],
  [api('CONSUMER.CREATE.log.mine'), ['ingest', 'api'], []],
  [api('CONSUMER.MSG.NEXT.log.mine'), ['ingest', 'api'], []],
  [api('CONSUMER.DELETE.log.mine'), ['ingest'], []],
  [api('CONSUMER.DURABLE.CREATE.log.mine'), [], []],
  ['$SYS.REQ.SERVER.PING', [], []],
  [`${inboxPrefixOf('ingest')}.x`, [], ['ingest']],
  [`${inboxPrefixOf('publisher')}.x`, ['ingest'], ['publisher']],
  [`${inboxPrefixOf('gateway')}.x`, ['ingest'], ['gateway']],
  [`${inboxPrefixOf('api')}.x`, [], ['api']],
];

test.each(subjects)('%s is only for its own processes', async (subject, publishers, listeners) => {
  const limited = roles.filter((role) => role !== 'operator');
  const found: { publishers: Role[]; listeners: Role[] } = { publishers: [], listeners: [] };
  for (const role of limited) {
    if (await mayPublish(role, subject)) found.publishers.push(role);
    if (await mayListen(role, subject)) found.listeners.push(role);
  }
  // Ordinary users are in a different account than the server's system account, so they get no response from it.
  expect(found).toEqual({ publishers, listeners });
});

test('no restricted user can subscribe to everything', async () => {
  for (const subject of ['>', 'log.>', '_INBOX.>', '$JS.>']) {
    const before = refusals.length;
    for (const role of ['publisher', 'ingest', 'gateway', 'api'] as const) {
      const end = as(role).subscribe(subject, () => undefined);
      await as(role).flush();
      end();
    }
    await expect.poll(() => refusals.length - before).toBe(4);
  }
});

test('a denied subject is reported by name', async () => {
  refusals.length = 0;
  as('gateway').publish('log.click.0', Buffer.from('x'));
  await expect.poll(() => refusals.join()).toMatch(/gateway: NATS refuses publish log\.click\.0: /);
});

test('without a password, or with a wrong one, there is no connection', async () => {
  const { host, search } = new URL(server.url);
  for (const login of ['', 'operator:wrong@', 'nobody:x@']) {
    const url = `tls://${login}${host}${search}`;
    await expect(Nats.connect({ url, name: 'stranger', installation, waitsForServer: false })).rejects.toThrow(/AUTH/i);
  }
});

test('only their owner can read the passwords and the configuration, and restarts do not change them', async () => {
  const files = ['nats.conf', ...[...roles, 'system'].map((role) => `password-${role}`)];
  const texts = () => files.slice(1).map((file) => readFileSync(join(dataDir, file), 'utf8'));
  const before = texts();
  for (const file of files) expect([file, statSync(join(dataDir, file)).mode & 0o777]).toEqual([file, 0o600]);
  expect(new Set(before).size).toBe(before.length);
  await server.stop();
  server = await startNats({ dataDir, port: server.port });
  expect(texts()).toEqual(before);
});
