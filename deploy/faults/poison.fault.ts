/**
 * Sends malformed records of many kinds among good ones: they are rejected or stored as dead letters, and good records
 * are unaffected.
 */
import { request } from 'node:https';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

/** An event of which one part is malformed; the id is valid, so that an accepted event can be found again. */
const events: readonly ((id: string) => string)[] = [
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","properties":{"x":"\\u0000"}}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"\\u0000","device_id":"d"}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"\\ud800","device_id":"d"}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"\\udfff","properties":{"\\ud83d":1}}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","properties":{"x":1e400,"y":-1e400}}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","timestamp":1e400}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","timestamp":"+275760-09-13T00:00:00Z"}]}`,
  (id) =>
    `{"events":[{"event_id":"${id}","name":"a","device_id":"d","properties":${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"${'x'.repeat(100_000)}","device_id":"d"}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","properties":{"x":"${'é'.repeat(14_000)}"}}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","revenue":{"amount":"1e400","currency":"EUR"}}]}`,
  (id) =>
    `{"events":[{"event_id":"${id}","name":"a","device_id":"d","revenue":{"amount":"${'9'.repeat(60)}","currency":"EUR"}}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d","__proto__":{"x":1},"constructor":1}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a\\u2028\\n\\r\\t\\u001f","device_id":"d\\n{\\"v\\":1}"}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"a","device_id":"d"}`,
  (id) => `\xef\xbb\xbf{"events":[{"event_id":"${id}","name":"a","device_id":"d"}]}`,
  (id) => `{"events":[{"event_id":"${id}","name":"\xff\xfe","device_id":"d"}]}`,
  () => '[]',
  () => '{"events":[[],null,1,"x"]}',
  () => 'null',
];

/** Query and user agent of clicks that a browser would not send. */
const visits: readonly (readonly [string, string])[] = [
  ['a=%00', 'Mozilla/5.0 \xff\xfe'],
  ['a=%ED%A0%80', '\xed\xa0\x80'],
  [`a=${'x'.repeat(2_500)}`, 'M'.repeat(1_000)],
  ['a="},{"v":1', '{"v":1}\\'],
  ['utm_source=%00&utm_campaign=%FF', "'; DROP TABLE clicks; --"],
  [`utm_campaign=${'%F0%9F%92%A9'.repeat(150)}`, '\\u0000\\ud800'],
];

test('malformed events and strange clicks are rejected or stored, and no good record is affected', async () => {
  const link = await stage.newLink('/strange');
  let accepted = 0;
  let redirects = 0;
  const statuses = new Map<number, number>();
  const lettersBefore = await stage.stored.rowsOf('dead_letters');
  const report = await runFault(stage, { name: 'poison', seed, clicks: 5_000 }, async ({ hit }) => {
    for (let round = 0; round < times(40); round++) {
      for (const [at, body] of events.entries()) {
        const answer = await post(body(`poison-${round}-${at}`));
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        accepted += answer.accepted;
        hit('broken event');
      }
      for (const [query, agent] of visits) {
        if ((await visit(link.short_code, query, agent)) === 302) redirects++;
        hit('strange click');
      }
      await sleep(systemTime, 10);
    }
  });
  console.log(
    `  events: ${[...statuses].map(([status, n]) => `${status}: ${n}`)}, accepted ${accepted}; redirects ${redirects}`,
  );
  expect(report).toMatchObject(nothingWrong);
  expect([...statuses.keys()].filter((status) => status !== 202 && status !== 400)).toEqual([]);
  const kept = async () => {
    const letters = (await stage.stored.rowsOf('dead_letters')) - lettersBefore;
    const stored = Number(await stage.stored.ask("SELECT count() FROM events WHERE startsWith(event_id, 'poison-')"));
    const clicks = Number(await stage.stored.ask(`SELECT count() FROM clicks WHERE link_id = '${link.id}'`));
    return { missing: accepted + redirects - stored - clicks - letters, clicks };
  };
  await expect.poll(kept, { timeout: 30_000, interval: 250 }).toMatchObject({ missing: 0 });
  console.log(
    `  ${JSON.stringify(await kept())}, dead letters ${(await stage.stored.rowsOf('dead_letters')) - lettersBefore}`,
  );
});

function post(body: string): Promise<{ status: number; accepted: number }> {
  const bytes = Buffer.from(body, 'latin1');
  return new Promise((settle, fail) => {
    const sent = request(
      {
        ...{ host: '127.0.0.1', port: stage.stack.apiPort, path: '/v1/sdk/events', method: 'POST' },
        rejectUnauthorized: false,
        headers: { 'x-api-key': stage.apiKey, 'content-type': 'application/json', 'content-length': bytes.length },
      },
      (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.once('end', () => {
          const answer: { accepted?: number } = JSON.parse(text);
          settle({ status: response.statusCode ?? 0, accepted: answer.accepted ?? 0 });
        });
      },
    );
    sent.once('error', fail);
    sent.end(bytes);
  });
}

/** @returns the status, or 0 if the connection was closed without one. */
function visit(code: string, query: string, agent: string): Promise<number> {
  return new Promise((settle) => {
    const socket = connect({ host: '127.0.0.1', port: stage.port });
    socket.write(`GET /${code}?${query} HTTP/1.1\r\nHost: ${stage.host}\r\nUser-Agent: ${agent}\r\n\r\n`, 'latin1');
    socket.once('data', (chunk) => {
      settle(Number(chunk.toString('latin1', 9, 12)));
      socket.destroy();
    });
    socket.once('error', () => settle(0));
    socket.once('close', () => settle(0));
  });
}
