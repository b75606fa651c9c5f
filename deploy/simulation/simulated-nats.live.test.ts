/** Runs the same random operations on the simulated NATS and on a real server, and compares the outcomes. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { ensureLogStream, logFill, purgeLog } from '#common/log/log-stream.ts';
import { Nats, type NatsClient } from '#common/stores/nats.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { natsForTest, type TestServer } from '#testing/servers.ts';
import { simulated } from './conformance.ts';
import { Machine } from './machine.ts';
import { Scheduler } from './scheduler.ts';
import { SimulatedNats } from './simulated-nats.ts';
import { SimulatedNatsClient } from './simulated-nats-client.ts';

const seed = 25;
const operations = 200;
const idsMax = 40;
const partitions = 2;
const kinds = ['click', 'event'] as const;
const stream = { bytesMax: 30_000, replicas: 1 };
/** How long to wait for the end of a pull. */
const pullMs = 40;
const nanosPerMs = 1_000_000;

let server: TestServer;
let real: Nats;
let scheduler: Scheduler;
let twin: SimulatedNatsClient;
beforeEach(async () => {
  server = await natsForTest();
  real = await Nats.connect({ url: server.url, name: 'test', installation: defaultInstallation });
  scheduler = new Scheduler(seed);
  const machine = new Machine('machine', scheduler, Date.now());
  twin = new SimulatedNatsClient(machine.start('test'), new SimulatedNats(scheduler, Date.now()), machine.link);
  await simulated(scheduler, () => twin.connected());
});
afterEach(async () => {
  await real.close();
  await server.stop();
});

/** An operation on either server. */
type Operation = (nats: NatsClient) => Promise<unknown>;

/** Expects the same outcome from both servers. */
async function same(what: string, operation: Operation): Promise<void> {
  expect({ what, outcome: await simulated(scheduler, () => operation(twin)) }).toEqual({
    what,
    outcome: await operation(real),
  });
}

/** The same for what can be repeated: on a busy machine, a pull of the real server may end before all has come. */
async function sameInTheEnd(what: string, operation: Operation): Promise<void> {
  const outcome = await simulated(scheduler, () => operation(twin));
  await expect.poll(() => operation(real), { message: what }).toEqual(outcome);
}

/** Publishes as a publisher does. @returns JetStream's answer, without the parts that are not used here. */
function published(nats: NatsClient, subject: string, bytes: Buffer, messageId?: string): Promise<unknown> {
  return new Promise((done) => {
    const reply = nats.inbox();
    const end = nats.subscribe(reply, (message) => {
      end();
      const { seq, duplicate = false, error } = JSON.parse(message.bytes.toString());
      done(error === undefined ? { seq, duplicate } : { refused: error.err_code });
    });
    nats.publish(subject, bytes, { reply, ...(messageId === undefined ? {} : { messageId }) });
  });
}

async function filled(nats: NatsClient): Promise<unknown> {
  const fill = await logFill(nats);
  return fill && { ...fill, created: '' };
}

/** What a new consumer reports about itself, and the sequences that a pull gets. */
async function consumed(nats: NatsClient, name: string, filter: string, batch: number): Promise<unknown> {
  const config = { name, ack_policy: 'none', replay_policy: 'instant', filter_subject: filter, deliver_policy: 'all' };
  const request = Buffer.from(JSON.stringify({ stream_name: nats.names.stream, config, action: 'create' }));
  const answer = await nats.request(nats.names.api('CONSUMER.CREATE', name), request);
  const { delivered, num_pending, error } = JSON.parse(String(answer?.bytes));
  const outcomes = await new Promise<unknown[]>((done) => {
    const [inbox, outcomes]: [string, unknown[]] = [nats.inbox(), []];
    const end = nats.subscribe(inbox, ({ reply, status }) => {
      const tokens = reply.split('.');
      // Stream sequence, consumer sequence, and how many are left.
      outcomes.push(reply === '' ? { status } : [tokens[5], tokens[6], tokens[8]].map(Number));
      if (reply !== '' && outcomes.length < batch) return;
      end();
      done(outcomes);
    });
    const pull = { batch, expires: pullMs * nanosPerMs };
    nats.publish(nats.names.api('CONSUMER.MSG.NEXT', name), Buffer.from(JSON.stringify(pull)), { reply: inbox });
  });
  await nats.request(nats.names.api('CONSUMER.DELETE', name));
  return { sequence: delivered?.stream_seq, num_pending, error, outcomes };
}

test('the simulated log stores, refuses, detects duplicates, purges and delivers as the real one does', async () => {
  const random = new SeededRandom(seed);
  await same('create', (nats) => ensureLogStream(nats, stream, { isOwner: true, installationId: 'one' }));
  let last = 0;
  for (let at = 0; at < operations; at++) {
    const [chance, partition, size] = [random.next(), random.between(0, partitions - 1), random.between(0, 900)];
    if (chance < 0.9) {
      const subject = real.names.subjectOf({ kind: random.pick(kinds), partition });
      const id = random.next() < 0.8 ? `id-${random.between(1, idsMax) + Math.floor(at / idsMax) * 10}` : undefined;
      await same(`publish ${id}`, (nats) => published(nats, subject, Buffer.alloc(size), id));
      last++;
    } else if (chance < 0.96) {
      const upTo = random.between(0, last);
      await same(`purge ${partition} up to ${upTo}`, (nats) => purgeLog(nats, partition, upTo));
    } else {
      const filter = random.next() < 0.5 ? real.names.records : real.names.subjectsOf(partition);
      const batch = random.between(1, 30);
      await sameInTheEnd(`consume ${filter}`, (nats) => consumed(nats, `consumer-${at}`, filter, batch));
    }
    await same('fill', filled);
  }
  await same('purge all', (nats) => purgeLog(nats, 0, last));
  await same('purge all', (nats) => purgeLog(nats, 1, last));
  await same('fill', filled);
});
