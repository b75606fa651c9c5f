/** An ingest process: the real owners of partitions with the real sink and recovery, on simulated stores. */
import { keepLogStream } from '#common/log/log-stream.ts';
import { decodeMarksRequest } from '#common/log/marks.ts';
import { noFailpoints } from '#ingest/failpoints.ts';
import { PartitionOwner } from '#ingest/partition-owner.ts';
import { newSinkCounters } from '#ingest/sink.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import type { SimulatedClickHouse } from './simulated-clickhouse.ts';
import type { SimulatedNats } from './simulated-nats.ts';
import { SimulatedNatsClient } from './simulated-nats-client.ts';
import type { SimulatedPostgres } from './simulated-postgres.ts';
import { SimulatedStore } from './simulated-store.ts';
import { ThinFormer } from './thin-former.ts';

export interface IngestOptions {
  readonly machine: Machine;
  readonly name: string;
  readonly partitions: number;
  readonly leaseSeconds: number;
  readonly batchRows: number;
  readonly logBytesMax: () => number;
  readonly nats: SimulatedNats;
  readonly postgres: SimulatedPostgres;
  readonly clickhouse: SimulatedClickHouse;
}

const flushIntervalMs = 200;
const batchBytes = 8_388_608;

export class IngestInstance {
  program: Program | undefined;
  client: SimulatedNatsClient | undefined;
  owners: readonly PartitionOwner[] = [];
  /** Of all its processes. */
  readonly counters = newSinkCounters();
  readonly #options: IngestOptions;

  constructor(options: IngestOptions) {
    this.#options = options;
  }

  start(): void {
    const program = this.#options.machine.start(this.#options.name);
    this.program = program;
    this.owners = [];
    program.enter(() => {
      this.#run(program).catch((error: unknown) => program.failed(error));
    });
  }

  async #run(program: Program): Promise<void> {
    const { machine, name, partitions, leaseSeconds, batchRows, logBytesMax, postgres, clickhouse } = this.#options;
    const nats = new SimulatedNatsClient(program, this.#options.nats, machine.link);
    this.client = nats;
    await nats.connected();
    const log = (fields: object, line: string) =>
      program.scheduler.note(() => `${program.name}: ${line} ${JSON.stringify(fields)}`);
    const { time } = program;
    await keepLogStream(nats, { bytesMax: logBytesMax(), replicas: 1 }, (line) => log({}, line), { time });
    const sink = {
      checkpoints: postgres.checkpointsOf(program, machine),
      store: new SimulatedStore(clickhouse, program, machine),
      former: new ThinFormer(),
      refusedRows: { find: () => Promise.resolve(new Set<string>()) },
      failpoints: noFailpoints,
      time,
      log,
    };
    this.owners = Array.from({ length: partitions }, (_, partition) => {
      const limits = { batchRows, batchBytes, flushIntervalMs };
      const { counters } = this;
      return new PartitionOwner({ partition, owner: name, leaseSeconds, nats, limits, sink, counters, time });
    });
    nats.subscribe(nats.names.marksRequest, (message) => {
      const request = decodeMarksRequest(message.bytes);
      if (request !== undefined) for (const owner of this.owners) owner.announceAll(request.producerIds);
    });
    for (const owner of this.owners) owner.start();
  }
}
