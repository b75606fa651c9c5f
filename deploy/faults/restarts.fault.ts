/** Restarts processes gracefully while clicks come in. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { processEnvironment } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import { sleep, systemTime } from '#common/time.ts';
import { startNodeProcess } from '#deploy/local/node-child.ts';
import { freePort } from '#deploy/local/ports.ts';
import { BalancedLoad } from './balanced-load.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';

const redirectors = 3;
let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ redirectors });
});
afterAll(() => stage.stop());

test('redirectors restarted in turn under load fail no request', async () => {
  const options = { name: 'rolling restart', seed, clicks: 5_000, eventSenders: 0 };
  const report = await runFault(stage, options, async ({ hit, clicks }) => {
    for (let rounds = 0; rounds < times(4); rounds++) {
      for (let one = 0; one < redirectors; one++) {
        await stage.processes.kill(`redirector-${one}`, 'SIGTERM');
        hit('redirector restarted');
        await sleep(systemTime, 300);
      }
    }
    console.log(`  latency p99 ${clicks.takeLatencies().p99.toFixed(1)} ms`);
  });
  expect(report).toMatchObject(nothingWrong);
  expect(report.clicks.unknown).toBe(0);
  expect([...report.answers.keys()]).toEqual([302]);
});

test.each(['ingest', 'publisher', 'origin'])('a graceful restart of %s loses nothing', async (name) => {
  const report = await runFault(stage, { name: `restart ${name}`, seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(5); rounds++) {
      await sleep(systemTime, random.between(200, 2_000));
      await stage.processes.kill(name, 'SIGTERM');
      hit(`${name} restarted`);
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

/** Starts another gateway or API, configured for a load balancer that terminates TLS. */
async function startBehindProxy(role: 'gateway' | 'api', instance: number, port: number) {
  const { stack, stores } = stage;
  const [name, metricsPort] = [`${role}-${instance}`, await freePort()];
  const secret = (file: string) => readFileSync(join(stack.dataDir, file), 'utf8').trim();
  const env = processEnvironment(role, {
    ...{ INSTANCE: name, DATA_DIR: stack.dataDir, METRICS_PORT: String(metricsPort), API_HTTP_PORT: String(port) },
    ...{ DATABASE_URL: stores.postgres.url, REDIS_URL: stores.redis.url, NATS_URL: stores.nats.url },
    ...{ CLICKHOUSE_URL: stores.clickhouse.url, SECRET_KEY: secret('secret-key'), ADDRESS_KEY: secret('address-key') },
    ...{ TRUSTED_PROXIES: '127.0.0.1', RATE_LIMIT_EVENTS: '1000000', RATE_LIMIT_GENERAL: '1000000' },
  });
  const entry = join(packageRoot(), 'dist', role, 'main.js');
  return startNodeProcess(
    { name, entry, env, logFolder: join(stack.dataDir, 'logs'), host: '127.0.0.1', metricsPort },
    true,
  );
}

test.each([
  ['gateway', 202],
  ['api', 200],
] as const)(
  'two %s processes behind a load balancer, restarted in turn under load, fail no request',
  async (role, expected) => {
    const ports = [await freePort(), await freePort()];
    const running = await Promise.all(ports.map((port, instance) => startBehindProxy(role, instance, port)));
    const proxied = {
      'x-forwarded-proto': 'https',
      'x-forwarded-for': '192.0.2.1',
      'content-type': 'application/json',
    };
    let number = 0;
    const event = () => ({ event_id: `${role}-${seed}-${number++}`, name: 'purchase', device_id: 'rolling' });
    const load = new BalancedLoad(
      role === 'gateway'
        ? {
            ...{ ports, method: 'POST', path: '/v1/sdk/events', headers: { ...proxied, 'x-api-key': stage.apiKey } },
            ...{ body: () => JSON.stringify({ events: [event()] }), senders: 16, pauseMs: 10 },
          }
        : {
            ...{
              ports,
              method: 'GET',
              path: '/v1/me',
              headers: { ...proxied, authorization: await stage.authorization() },
            },
            ...{ body: () => '', senders: 16, pauseMs: 10 },
          },
    );
    load.start();
    try {
      for (let rounds = 0; rounds < times(4); rounds++) {
        for (const [instance, port] of ports.entries()) {
          const wanted = load.count(expected) + 500;
          await expect.poll(() => load.count(expected), { timeout: 60_000 }).toBeGreaterThan(wanted);
          await running[instance]?.stop();
          running[instance] = await startBehindProxy(role, instance, port);
        }
      }
    } finally {
      await load.stop();
      await Promise.all(running.map((process) => process.stop()));
    }
    console.log(
      `rolling restart of ${role}: ${[...load.answers].map(([status, times]) => `${status}: ${times}`).join(', ')}`,
    );
    expect(load.failures).toEqual([]);
    expect([...load.answers.keys()]).toEqual([expected]);
  },
);
