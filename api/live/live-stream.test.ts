import { expect, test } from 'vitest';
import { LiveStream, positionText, readPosition } from './live-stream.ts';
import { Sampler } from './sampler.ts';

const filter = { organizationIds: ['org_a'], appIds: null, linkIds: null, deviceIds: null };

test('a client that does not read is disconnected, and its queue is freed', async () => {
  const stream = new LiveStream(filter, null);
  for (let sent = 0; !stream.isOver && sent < 2_000; sent++) stream.send('x'.repeat(1_000));
  expect(stream.isOver).toBe(true);
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});

test('a client that reads gets everything, however much there is', async () => {
  const stream = new LiveStream(filter, null);
  let bytes = 0;
  for (let sent = 0; sent < 3_000; sent++) {
    stream.send('x'.repeat(1_000));
    if (sent % 100 === 99) bytes += (await stream.next()).value?.length ?? 0;
  }
  expect([stream.isOver, bytes]).toEqual([false, 3_000_000]);
});

test('queued records are still sent when a stream ends', async () => {
  const stream = new LiveStream(filter, null);
  stream.send('last');
  stream.end();
  stream.send('later');
  expect(Buffer.from((await stream.next()).value ?? []).toString()).toBe('last');
  expect((await stream.next()).done).toBe(true);
});

test('a line is parsed only if it may match, and a name that JSON escapes is never missed', () => {
  const of = (device: string) => new LiveStream({ ...filter, deviceIds: [device] }, null);
  expect(of('d1').mayWant('{"organization_id":"org_a","device_id":"d1"}')).toBe(true);
  expect(of('d1').mayWant('{"organization_id":"org_a","device_id":"d2"}')).toBe(false);
  expect(of('d1').mayWant('{"organization_id":"org_b","device_id":"d1"}')).toBe(false);
  expect(of('gerät "1"').mayWant('{"organization_id":"org_a","device_id":"ger\\u00e4t \\"1\\""}')).toBe(true);
});

test('an organization’s id inside another organization’s record does not reveal the record', () => {
  const stream = new LiveStream(filter, null);
  const record = {
    kind: 'event',
    organization_id: 'org_b',
    app_id: '',
    link_id: '',
    device_id: '',
    shown: {},
  } as const;
  expect(stream.mayWant('{"organization_id":"org_b","sent":{"name":"org_a"}}')).toBe(true);
  expect(stream.wants(record)).toBe(false);
});

test('positions are parsed as they were written, and other text is rejected', () => {
  const position = { timeMs: 1_768_469_400_123, sequence: 4_711, record: 3 };
  expect(readPosition(positionText(position))).toEqual(position);
  for (const text of ['', '1', '1-2', '1-2-3-4', '-1-2-3', '1-2-x', `${'9'.repeat(40)}-1-1`])
    expect([text, readPosition(text)]).toEqual([text, null]);
});

test('after a busy second, the next one is sampled evenly from start to end', () => {
  const sampler = new Sampler(100);
  const taken: number[] = [];
  for (let at = 0; at < 2_000; at++) {
    sampler.endSecond(at);
    if (sampler.takes() && at >= 1_000) taken.push(at);
  }
  expect(taken).toHaveLength(100);
  for (const from of [1_000, 1_250, 1_500, 1_750])
    expect(taken.filter((at) => at >= from && at < from + 250)).toHaveLength(25);
  expect(sampler.endSecond(2_000)).toEqual({ seen: 1_000, sent: 100 });
});

test('a second within the limit is shown completely and not reported', () => {
  const sampler = new Sampler(100);
  sampler.endSecond(0);
  expect(Array.from({ length: 100 }, () => sampler.takes())).not.toContain(false);
  expect(sampler.endSecond(1_500)).toBeNull();
});
