/** An ingest that is right by construction: what it takes, it keeps at once. With it a simulation is about journal, publisher and log alone. */
import { payloadOf } from '#common/log/frame.ts';
import { encodeAnnouncements, FrameSet, type LaneMarks, laneKeyOf } from '#common/log/marks.ts';
import type { LogFrame } from '#ingest/batch.ts';
import { LogReader } from '#ingest/log-reader.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import type { SimulatedNats } from './simulated-nats.ts';
import { SimulatedNatsClient } from './simulated-nats-client.ts';

const announceMs = 100;

/** What survives the death of the program. */
export class ModelStore {
  readonly lanes = new Map<string, { readonly marks: Omit<LaneMarks, 'mark' | 'ahead'>; readonly set: FrameSet }>();
  /** How often each record is stored. */
  readonly stored = new Map<number, number>();
  committedTo = 0;
}

export class ModelIngest {
  readonly store = new ModelStore();
  program: Program | undefined;
  client: SimulatedNatsClient | undefined;
  readonly #machine: Machine;
  readonly #nats: SimulatedNats;
  readonly #partition: number;

  constructor(machine: Machine, nats: SimulatedNats, partition: number) {
    this.#machine = machine;
    this.#nats = nats;
    this.#partition = partition;
  }

  start(): void {
    const program = this.#machine.start(`ingest-${this.#partition}`);
    this.program = program;
    program.enter(() => {
      this.#run(program).catch((error: unknown) => program.failed(error));
    });
  }

  async #run(program: Program): Promise<void> {
    const nats = new SimulatedNatsClient(program, this.#nats, this.#machine.link);
    this.client = nats;
    await nats.connected();
    const { store } = this;
    const partition = this.#partition;
    const reader = new LogReader({
      nats,
      time: program.time,
      partition,
      position: () => store.committedTo,
      onFrame: (frame) => {
        this.#take(frame);
        return true;
      },
      onCaughtUp: () => {
        caughtUpAt = program.time.now();
      },
      log: (line) => program.scheduler.note(() => `${program.name}: ${line}`),
    });
    let caughtUpAt = 0;
    const announce = () => {
      const lanes = [...store.lanes.values()].map(({ marks, set }) => ({ ...marks, mark: set.mark, ahead: set.ahead }));
      for (const bytes of encodeAnnouncements({
        installation_id: '',
        partition,
        committed_to: Math.max(store.committedTo, caughtUpAt),
        lanes,
      })) {
        nats.publish(nats.names.marks, bytes);
      }
    };
    nats.subscribe(nats.names.marksRequest, announce);
    program.time.every(announceMs, announce);
    reader.start();
  }

  #take(frame: LogFrame): void {
    const { lanes, stored } = this.store;
    const key = laneKeyOf(frame.header);
    let lane = lanes.get(key);
    if (lane === undefined) {
      const { producer_id, kind, partition } = frame.header;
      lane = { marks: { producer_id, kind, partition }, set: new FrameSet() };
      lanes.set(key, lane);
    }
    this.store.committedTo = Math.max(this.store.committedTo, frame.streamTime);
    if (lane.set.has(frame.header.frame_no) || !lane.set.hasRoomFor(frame.header.frame_no)) return;
    lane.set.add(frame.header.frame_no);
    for (const line of payloadOf(frame.bytes, frame.header).toString().trimEnd().split('\n')) {
      const { n } = JSON.parse(line) as { n: number };
      stored.set(n, (stored.get(n) ?? 0) + 1);
    }
  }
}
