/** The publisher of a machine: a process of its own, so that a dead edge's journal is still published. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Counter, Gauge } from 'prom-client';
import { SlotLock } from '#common/journal/slot-lock.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { ReadyOnce } from '#common/process/ready-once.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, telemetryPart } from '#common/process/telemetry.ts';
import { Nats } from '#common/stores/nats.ts';
import { Tracing, tracingPart } from '#common/tracing/tracing.ts';
import { keepInstallation, keptInstallation } from './kept-installation.ts';
import { machineIdentity } from './machine-name.ts';
import { Publisher } from './publisher.ts';
import { tracedNats } from './traced-nats.ts';

const config = processConfig('publisher', ['NATS_URL']);
const log = createLog('publisher', config);
const metrics = createMetrics('publisher');
const tracing = await Tracing.open('publisher', config, log, metrics);
const root = join(config.DATA_DIR, 'journal');

mkdirSync(root, { recursive: true });
const lock = await SlotLock.take(root);
if (lock === undefined) {
  log.fatal({ root }, 'another publisher works on this folder');
  process.exit(1);
}

const lockCheckMs = 1_000;

async function keepLock(of: SlotLock): Promise<void> {
  if (await of.renew()) return;
  log.fatal({ root }, 'another publisher has taken this folder');
  process.exit(1);
}

setInterval(() => void keepLock(lock), lockCheckMs).unref();

/** Created once the log exists; its counters are shown from then on. */
let running: { readonly nats: Nats; readonly publisher: Publisher } | undefined;

function publisherOn(nats: Nats): Publisher {
  const machine = machineIdentity(root, config.MACHINE_NAME);
  const stream = { bytesMax: config.LOG_BYTES_MAX, replicas: Number(config.LOG_REPLICAS) };
  return new Publisher({
    root,
    machine: machine.name,
    holder: machine.holder,
    onNameTaken: () => {
      log.fatal(
        { machine: machine.name },
        'another machine reports under this name: give each machine its own MACHINE_NAME, and a DATA_DIR that is not a copy',
      );
      process.exit(1);
    },
    nats,
    system: nodeSystem,
    ensureLog: () =>
      keepLogStream(nats, stream, (line) => log.warn(line), { installationId: keptInstallation(root) }).then((id) =>
        keepInstallation(root, id),
      ),
    onDamage: (producer_id, reason) =>
      log.error(
        { producer_id, reason },
        'a journal is damaged: what is intact is published, and a damaged file is kept',
      ),
    log: (line) => log.warn(line),
  });
}

/** Help texts of the counters. */
const counted: Record<keyof Publisher['counters'], string> = {
  messages: 'Messages that were sent to the log, including repeats.',
  frames: 'Frames that were sent to the log, including repeats.',
  bytes: 'Bytes that were sent to the log, including repeats.',
  records: 'Records that were sent to the log, including repeats.',
  acknowledged: 'Frames that the log has acknowledged.',
  duplicates: 'Frames that the log already had.',
  failures: 'Times that the log refused a message or did not answer in time.',
  refusals: 'Messages that the log refused, with a reason.',
  skipped: 'Times that frames which ingest had not read were published again.',
  torn_bytes: 'Bytes of incomplete frames at the end of removed journals.',
  segments_deleted: 'Journal files that were deleted because ClickHouse has their records.',
};

function expose(publisher: Publisher): void {
  for (const name of Object.keys(publisher.counters) as (keyof typeof publisher.counters)[]) {
    new Counter({
      name: `signpost_publisher_${name}_total`,
      help: counted[name],
      registers: [metrics],
      collect() {
        this.reset();
        this.inc(publisher.counters[name]);
      },
    });
  }
  const gauges: Record<string, readonly [help: string, read: () => number]> = {
    messages_in_flight: ['Messages that were sent and not acknowledged yet.', () => publisher.messagesInFlight],
    log_refuses: ['1 while the log accepts no records.', () => (publisher.refusal === '' ? 0 : 1)],
    damaged_journals: ['Journals with damaged or missing files.', () => publisher.damaged.length],
    uncommitted_seconds: [
      'How far the statistics lag behind on this machine.',
      () => Math.max(0, (nodeSystem.time.now() - publisher.committedTo) / 1000),
    ],
  };
  for (const [name, [help, read]] of Object.entries(gauges)) {
    new Gauge({
      name: `signpost_publisher_${name}`,
      help,
      registers: [metrics],
      collect() {
        this.set(read());
      },
    });
  }
}

await new Lifecycle({ log }).run([
  tracingPart(tracing),
  { name: 'lock', stop: () => lock.release() },
  telemetryPart(
    config,
    metrics,
    {
      log: () => running !== undefined || 'not created yet',
      log_takes_records: () => running?.publisher.refusal || true,
      nats: () => running?.nats.isConnected || 'not connected',
      journals: () => !running?.publisher.damaged.length || `${running.publisher.damaged.length} damaged`,
    },
    { laterChecks: ['log_takes_records', 'journals'], readyOnce: new ReadyOnce('publisher', config) },
  ),
  {
    name: 'publisher',
    start: async () => {
      const onNatsError = new StoreLog(log).of('NATS', 'NATS_URL');
      const nats = await Nats.connect({
        url: config.NATS_URL,
        name: 'publisher',
        installation: config.INSTALLATION,
        onRefusal: onNatsError,
        onError: onNatsError,
      });
      const publisher = publisherOn(tracing === undefined ? nats : tracedNats(nats, tracing));
      await publisher.start();
      expose(publisher);
      running = { nats, publisher };
    },
    stop: async () => {
      await running?.publisher.stop();
      await running?.nats.close();
    },
  },
]);
