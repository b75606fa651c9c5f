import { expect, onTestFinished, test } from 'vitest';
import { encodeFrame } from '#common/log/frame.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { Nats, type NatsClient } from '#common/stores/nats.ts';
import { systemTime } from '#common/time.ts';
import { natsForTest } from '#testing/servers.ts';
import { LogReader } from './log-reader.ts';

test('a delivery that the connection has lost is read again, with everything after it', async () => {
  const server = await natsForTest();
  const nats = await Nats.connect({ url: server.url, name: 'test', installation: defaultInstallation });
  await keepLogStream(nats, { bytesMax: 10_000_000, replicas: 1 }, () => undefined);
  const frames = 20;
  const lane = { kind: 'click', partition: 0 } as const;
  for (let frame_no = 1; frame_no <= frames; frame_no++) {
    const bytes = Buffer.alloc(200);
    const header = { ...lane, producer_id: 'p'.repeat(26), frame_no, records: 1, written_at: Date.now() };
    const length = encodeFrame(bytes, 0, header, '{}\n');
    await nats.request(nats.names.subjectOf(lane), bytes.subarray(0, length));
  }
  let deliveries = 0;
  const lossy = new Proxy<NatsClient>(nats, {
    get: (target, name: keyof NatsClient) => {
      if (name !== 'subscribe') return typeof target[name] === 'function' ? target[name].bind(target) : target[name];
      return (subject: string, take: Parameters<NatsClient['subscribe']>[1]) =>
        target.subscribe(subject, (message) => {
          if (++deliveries !== 7) take(message);
        });
    },
  });
  const read: number[] = [];
  const reader = new LogReader({
    nats: lossy,
    time: systemTime,
    partition: 0,
    position: () => 0,
    onFrame: ({ header }) => read.push(header.frame_no) > 0,
    onCaughtUp: () => undefined,
    log: () => undefined,
  });
  reader.start();
  onTestFinished(async () => {
    reader.stop();
    await nats.close();
    await server.stop();
  });
  await expect.poll(() => read.filter((no) => no === frames).length, { timeout: 15_000 }).toBeGreaterThan(0);
  await expect.poll(() => new Set(read).size, { timeout: 15_000 }).toBe(frames);
  expect(reader.counters.restarts).toBe(1);
});
