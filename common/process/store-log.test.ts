import { expect, test } from 'vitest';
import { StoreLog, storeWarningMs } from './store-log.ts';

function storeLog() {
  let nowMs = 0;
  const lines: { level: string; fields: Record<string, unknown>; line: string }[] = [];
  const at = (level: string) => (fields: object, line: string) =>
    void lines.push({ level, fields: fields as Record<string, unknown>, line });
  const log = { warn: at('warn'), debug: at('debug') } as unknown as ConstructorParameters<typeof StoreLog>[0];
  const warnings = () => lines.filter(({ level }) => level === 'warn');
  return { stores: new StoreLog(log, () => nowMs), lines, warnings, pass: (ms: number) => (nowMs += ms) };
}

test('an outage of an hour with a failure every second is one line in five minutes for each store, with how many there were', () => {
  const { stores, warnings, lines, pass } = storeLog();
  const clients = (['Postgres', 'Redis', 'ClickHouse', 'NATS'] as const).map((store) =>
    stores.of(store, `${store}_URL`),
  );
  for (let second = 0; second < 3_600; second++) {
    for (const failed of clients) failed(new Error('connect ECONNREFUSED'));
    pass(1_000);
  }
  expect(warnings()).toHaveLength(4 * 12);
  expect(warnings()[0]).toMatchObject({
    fields: { store: 'Postgres', reason: 'connect ECONNREFUSED' },
    line: 'Postgres is unavailable',
  });
  expect(warnings()[4]?.fields).toMatchObject({ more_since_last_line: storeWarningMs / 1_000 - 1 });
  expect(lines).toHaveLength(4 * 3_600);
});

test.each([
  ['Postgres', Object.assign(new Error('password authentication failed for user "x"'), { code: '28P01' })],
  ['Redis', new Error('WRONGPASS invalid username-password pair or user is disabled.')],
  ['Redis', new Error('NOAUTH Authentication required.')],
  ['Redis', new Error("NOPERM this user has no permissions to run the 'get' command")],
  ['ClickHouse', Object.assign(new Error('Authentication failed'), { code: 516 })],
  ['NATS', "NATS refuses this connection: 'Authorization Violation'"],
] as const)('%s: a refusal names the setting, once, although the store was unavailable before', (store, error) => {
  const { stores, warnings } = storeLog();
  const failed = stores.of(store, 'SETTING');
  failed(new Error('connect ECONNREFUSED'));
  failed(error);
  failed(error);
  expect(warnings().map(({ line }) => line)).toEqual([
    `${store} is unavailable`,
    `${store} refuses the user of SETTING, its password or a permission`,
  ]);
});

test('a request that fails is named with its id, its route and the store that failed last, and so is the next one of another store', () => {
  const { stores, warnings, pass } = storeLog();
  stores.of('ClickHouse', 'CLICKHOUSE_URL')(new Error('socket hang up'));
  stores.requestFailed('GET /analytics/overview', 'req_1');
  stores.requestFailed('GET /analytics/overview', 'req_2');
  stores.of('Redis', 'REDIS_URL')(new Error('ECONNRESET'));
  stores.requestFailed('POST /auth/login', 'req_3');
  pass(2 * 60_000);
  stores.requestFailed('POST /sdk/install', 'req_4');
  const requests = warnings().filter(({ line }) => line === 'a request was answered with 500');
  expect(requests.map(({ fields }) => fields)).toEqual([
    { request_id: 'req_1', route: 'GET /analytics/overview', store: 'ClickHouse', reason: 'socket hang up' },
    { request_id: 'req_3', route: 'POST /auth/login', store: 'Redis', reason: 'ECONNRESET' },
    { request_id: 'req_4', route: 'POST /sdk/install' },
  ]);
});
