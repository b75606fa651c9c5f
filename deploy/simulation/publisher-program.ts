/** The publisher of a simulated machine: the real code, on simulated ports. */
import { keepLogStream } from '#common/log/log-stream.ts';
import { Publisher } from '#publisher/publisher.ts';
import { journalRoot } from './edge-program.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import type { SimulatedNats } from './simulated-nats.ts';
import { SimulatedNatsClient } from './simulated-nats-client.ts';

export class PublisherOfMachine {
  program: Program | undefined;
  publisher: Publisher | undefined;
  client: SimulatedNatsClient | undefined;
  readonly #machine: Machine;
  readonly #nats: SimulatedNats;
  readonly #logBytesMax: () => number;

  constructor(machine: Machine, nats: SimulatedNats, logBytesMax: () => number) {
    this.#machine = machine;
    this.#nats = nats;
    this.#logBytesMax = logBytesMax;
  }

  start(): void {
    const machine = this.#machine;
    const program = machine.start('publisher');
    this.program = program;
    this.publisher = undefined;
    program.enter(() => {
      this.#run(program).catch((error: unknown) => program.failed(error));
    });
  }

  async #run(program: Program): Promise<void> {
    const system = this.#machine.systemOf(program);
    const log = (line: string) => program.scheduler.note(() => `${program.name}: ${line}`);
    system.disk.makeFolder(journalRoot);
    if ((await system.locks.take(journalRoot)) === undefined) {
      program.kill();
      return;
    }
    const nats = new SimulatedNatsClient(program, this.#nats, this.#machine.link);
    this.client = nats;
    await nats.connected();
    const publisher = new Publisher({
      root: journalRoot,
      machine: this.#machine.name,
      nats,
      system,
      onDamage: (producerId, reason) => log(`the journal of ${producerId} is damaged: ${reason}`),
      log,
      ensureLog: () => keepLogStream(nats, { bytesMax: this.#logBytesMax(), replicas: 1 }, log, { time: program.time }),
    });
    await publisher.start();
    this.publisher = publisher;
  }
}
