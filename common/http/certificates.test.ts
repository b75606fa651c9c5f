import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { Registry } from 'prom-client';
import { generate } from 'selfsigned';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
import { readCertificates } from '#common/process/certificate-files.ts';
import { CertificateWatch } from '#common/process/certificate-watch.ts';
import { waitingVisitors } from '#common/testing/waiting-visitors.ts';
import { systemTime } from '#common/time.ts';
import { Port } from './port.ts';
import { HttpServer } from './server.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-certificates-'));
const place = (name: string) => join(folder, name);
const made = new Map<string, { readonly cert: string; readonly private: string }>();
const endings: (() => Promise<void> | void)[] = [];

beforeAll(async () => {
  const pairs = {
    old: ['a.example'],
    new: ['a.example'],
    ended: ['a.example'],
    brand: ['go.brand.example', '*.wild.example'],
  };
  for (const [name, hosts] of Object.entries(pairs)) {
    const altNames = hosts.map((value) => ({ type: 2 as const, value }));
    const extensions = [{ name: 'subjectAltName' as const, altNames }];
    const ended = { notBeforeDate: new Date(Date.now() - 2 * DAY_MS), notAfterDate: new Date(Date.now() - DAY_MS) };
    const options = { keyType: 'ec' as const, extensions, ...(name === 'ended' && ended) };
    made.set(name, await generate([{ name: 'commonName', value: name }], options));
  }
});
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes one of the pairs as a certificate and a key. */
function write(as: string, cert: string, key = cert): void {
  writeFileSync(place(`${as}.cert`), made.get(cert)?.cert ?? '');
  writeFileSync(place(`${as}.key`), made.get(key)?.private ?? '');
}

const files = (...names: string[]) => ({
  TLS_CERT_FILE: names.map((name) => place(`${name}.cert`)),
  TLS_KEY_FILE: names.map((name) => place(`${name}.key`)),
});

/** A server whose certificates are watched; `minute` lets one pass. */
async function watched(...names: string[]) {
  const lines: { readonly level: string; readonly fields: object }[] = [];
  const write = (level: string) => (fields: object) => void lines.push({ level, fields });
  let minute = () => {};
  const signals = new EventEmitter();
  const watch = new CertificateWatch({
    settings: files(...names),
    log: { info: write('info'), warn: write('warn'), error: write('error'), fatal: write('fatal') },
    time: {
      ...systemTime,
      every: (ms, callback) => {
        expect(ms).toBe(60_000);
        minute = callback;
        return {};
      },
    },
    signals,
  });
  const server = await HttpServer.start({
    ...{ host: '127.0.0.1', httpsPort: 0, httpPort: null, certificates: watch.certificates },
    ...{ trustedProxies: [], corsOrigins: [], routes: [], hstsSeconds: 600 },
    guardUnknown: () => Promise.resolve({ caller: null, quota: null }),
    onFailure: () => undefined,
  });
  watch.onChange((certificates) => server.prepare(certificates));
  watch.start();
  endings.push(async () => {
    watch.stop();
    await server.stop(1_000);
  });
  const metrics = new Registry();
  watch.expose(metrics);
  const metric = async (name: string) => (await metrics.getSingleMetric(name)?.get())?.values[0]?.value;
  return { port: server.httpsPort, minute: () => minute(), signals, lines, metric };
}

interface Reply {
  readonly status: number | undefined;
  readonly hsts: string | string[] | undefined;
  /** The common name of the certificate, and the socket, to tell connections apart. */
  readonly certificate: string | string[] | undefined;
  readonly socket: TLSSocket;
}

function ask(port: number, name = 'a.example', agent: Agent | false = false): Promise<Reply> {
  return new Promise((done, fail) => {
    const options = { port, host: '127.0.0.1', servername: name, path: '/v1/x', rejectUnauthorized: false, agent };
    request(options, (answer) => {
      const socket = answer.socket as TLSSocket;
      const certificate = socket.getPeerCertificate().subject.CN;
      const hsts = answer.headers['strict-transport-security'];
      answer.resume().on('end', () => done({ status: answer.statusCode, hsts, certificate, socket }));
    })
      .on('error', fail)
      .end();
  });
}

test('a changed certificate is served within a minute, and a kept connection outlives the change', async () => {
  write('one', 'old');
  const { port, minute, lines } = await watched('one');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  endings.unshift(() => agent.destroy());
  const before = await ask(port, 'a.example', agent);
  expect(before.certificate).toBe('old');
  minute();
  expect(lines).toEqual([]);
  write('one', 'new');
  minute();
  await expect.poll(async () => (await ask(port)).certificate).toBe('new');
  const kept = await ask(port, 'a.example', agent);
  expect([kept.socket === before.socket, kept.status, kept.certificate]).toEqual([true, 404, 'old']);
  expect(lines).toMatchObject([{ level: 'info', fields: { certificates: [{ names: ['a.example'] }] } }]);
});

test('SIGHUP replaces the certificates at once', async () => {
  write('one', 'old');
  const { port, signals } = await watched('one');
  write('one', 'new');
  signals.emit('SIGHUP');
  await expect.poll(async () => (await ask(port)).certificate).toBe('new');
});

test('files that do not match are reported once and not used, until they match', async () => {
  write('one', 'old');
  const { port, minute, lines, metric } = await watched('one');
  write('one', 'new', 'old');
  minute();
  minute();
  expect((await ask(port)).certificate).toBe('old');
  expect(lines).toMatchObject([
    { level: 'error', fields: { reason: expect.stringContaining('not the private key') as string } },
  ]);
  expect(await metric('signpost_tls_certificate_refused')).toBe(1);
  rmSync(place('one.key'));
  minute();
  expect(lines).toHaveLength(2);
  write('one', 'new');
  minute();
  await expect.poll(async () => (await ask(port)).certificate).toBe('new');
  expect(await metric('signpost_tls_certificate_refused')).toBe(0);
  expect(await metric('signpost_tls_certificate_ends_seconds')).toBeGreaterThan(Date.now() / 1000);
  write('one', 'old', 'new');
  minute();
  write('one', 'new');
  minute();
  expect(await metric('signpost_tls_certificate_refused')).toBe(0);
});

test('a certificate that has expired by this machine’s clock is served, and reported', async () => {
  write('one', 'ended');
  const { port, lines } = await watched('one');
  expect((await ask(port)).certificate).toBe('ended');
  expect(lines).toMatchObject([
    { level: 'error', fields: { reason: expect.stringContaining('expired on') as string } },
  ]);
});

test('a valid certificate is not replaced by one that has expired', async () => {
  write('one', 'old');
  const { port, minute, metric } = await watched('one');
  write('one', 'ended');
  minute();
  expect((await ask(port)).certificate).toBe('old');
  expect(await metric('signpost_tls_certificate_refused')).toBe(1);
});

test('the certificate is the one for the name asked for, and every name has all routes, also after a change', async () => {
  write('one', 'old');
  write('two', 'brand');
  const { port, minute } = await watched('one', 'two');
  const expectNames = async (first: string) => {
    for (const [name, certificate] of [
      ['a.example', first],
      ['go.brand.example', 'brand'],
      ['any.wild.example', 'brand'],
      ['two.labels.wild.example', first],
      ['unknown.example', first],
    ] as const) {
      expect(await ask(port, name), name).toMatchObject({ status: 404, hsts: 'max-age=600', certificate });
    }
  };
  await expectNames('old');
  write('one', 'new');
  minute();
  await expect.poll(async () => (await ask(port)).certificate).toBe('new');
  await expectNames('new');
});

interface Answer {
  end(body: string, isLast: boolean): void;
}

/** A port for both certificates, whose answers close the connection if `isLast`. */
function portWithTwo(options: { isShared: boolean; isLast: boolean }) {
  write('one', 'old');
  write('two', 'new');
  const [old, other] = ['one', 'two'].map((name) => readCertificates(files(name)).certificates);
  const mount = (app: { any(path: string, answer: (res: Answer) => void): unknown }) =>
    void app.any('/*', (res) => res.end('ok', options.isLast));
  const port = Port.open({ host: '127.0.0.1', port: 0, isShared: options.isShared, certificates: old, mount });
  endings.push(async () => {
    await port.closeListener();
    port.closeConnections();
  });
  return { port, certificates: [old ?? [], other ?? []] as const };
}

test.each([true, false])(
  'a port (shared with other processes: %s) changes its certificates as often as asked, and answers connections that wait',
  async (isShared) => {
    const { port, certificates } = portWithTwo({ isShared, isLast: true });
    const reply = () =>
      new Promise<string>((done) => {
        const socket = connect({ port: port.number, host: '127.0.0.1', rejectUnauthorized: false }, () => {
          done(String(socket.getPeerCertificate().subject.CN));
          socket.destroy();
        });
        socket.on('error', (error) => done(String(error)));
      });
    for (const at of [1, 0, 1] as const) {
      await port.prepare(certificates[at])();
      expect(await reply()).toBe(['old', 'new'][at]);
    }
    const replies = waitingVisitors(port.number, { isTls: true });
    await port.prepare(certificates[0])();
    expect(new Set(await replies)).toEqual(new Set(['HTTP/1.1 200 OK']));
    await expect.poll(() => port.connections).toBe(0);
  },
);

test('connections that wait while the certificates change are counted, so that a stop waits for them and then cuts them', async () => {
  const { port, certificates } = portWithTwo({ isShared: true, isLast: false });
  const replies = waitingVisitors(port.number, { count: 3, isTls: true });
  await port.prepare(certificates[1])();
  expect(port.connections).toBe(3);
  await port.closeListener();
  port.closeConnections();
  expect(port.connections).toBe(0);
  expect(await replies).toHaveLength(3);
});
