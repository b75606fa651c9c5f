import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type SecureVersion } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readCertificates } from '#common/process/certificate-files.ts';
import { certificate } from '#deploy/local/made-once.ts';
import { HttpServer } from './server.ts';

let folder: string;
let server: HttpServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-tls-'));
  const { certFile, keyFile } = await certificate(folder, 'localhost');
  const { certificates } = readCertificates({ TLS_CERT_FILE: [certFile], TLS_KEY_FILE: [keyFile] });
  server = await HttpServer.start({
    ...{ host: '127.0.0.1', httpsPort: 0, httpPort: 0, certificates },
    ...{ trustedProxies: [], corsOrigins: [], routes: [], hstsSeconds: 600 },
    guardUnknown: () => Promise.resolve({ caller: null, quota: null }),
    onFailure: () => undefined,
  });
});
afterAll(async () => {
  await server.stop(1_000);
  rmSync(folder, { recursive: true });
});

/** The negotiated cipher, or null if there was none. */
function handshake(version: SecureVersion, ciphers: string): Promise<string | null> {
  return new Promise((done) => {
    const socket = connect({
      ...{ port: server.httpsPort, host: '127.0.0.1', rejectUnauthorized: false },
      ...{ minVersion: version, maxVersion: version, ciphers: `${ciphers}:@SECLEVEL=0` },
    });
    socket.on('secureConnect', () => {
      done(socket.getCipher().standardName);
      socket.destroy();
    });
    socket.on('error', () => done(null));
  });
}

test.each([
  ['TLSv1.2', 'ECDHE-ECDSA-AES128-GCM-SHA256', 'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256'],
  ['TLSv1.2', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'],
  ['TLSv1.2', 'ECDHE-ECDSA-CHACHA20-POLY1305', 'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256'],
  ['TLSv1.2', 'ECDHE-ECDSA-AES128-SHA256', null],
  ['TLSv1.2', 'ECDHE-ECDSA-AES256-SHA384', null],
  ['TLSv1.2', 'ECDHE-ECDSA-AES128-SHA', null],
  ['TLSv1.2', 'ECDHE-ECDSA-AES256-SHA', null],
  ['TLSv1.1', 'ALL', null],
  ['TLSv1', 'ALL', null],
] as const)('%s with %s negotiates %s', async (version, ciphers, agreed) => {
  expect(await handshake(version, ciphers)).toBe(agreed);
});

test('TLS 1.3 is supported', async () => {
  expect(await handshake('TLSv1.3', 'ALL')).toMatch(/^TLS_/);
});

test('over TLS, an answer says how long to use only HTTPS; each says nosniff and none names the server', async () => {
  const secure = await new Promise<NodeJS.Dict<string | string[]>>((done, fail) => {
    const options = {
      port: server.httpsPort,
      host: '127.0.0.1',
      path: '/v1/x',
      rejectUnauthorized: false,
      agent: false,
    };
    request(options, (answer) => {
      answer.resume();
      done(answer.headers);
    })
      .on('error', fail)
      .end();
  });
  expect(secure['strict-transport-security']).toBe('max-age=600');
  const plain = Object.fromEntries((await fetch(`http://127.0.0.1:${server.httpPort}/v1/x`)).headers);
  expect(plain['strict-transport-security']).toBeUndefined();
  for (const headers of [secure, plain]) {
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect([headers['server'], headers['uwebsockets'], headers['x-powered-by']]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  }
});
