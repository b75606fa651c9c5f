/**
 * Ingest's `LateStore` on the simulated ClickHouse: installs that arrived after their events, and the rows that correct
 * those events.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { type BatchName, monthOf } from '#clickhouse/rows.ts';
import type { EventRow } from '#clickhouse/rows-events.ts';
import { campaignFrom } from '#common/campaign-fields.ts';
import { nowhere } from '#common/country-database.ts';
import type { Cursor } from '#ingest/attribution/late-cursors.ts';
import type { BatchOfInstalls, KnownInstall, LateStore, WaitingFor } from '#ingest/attribution/late-store.ts';
import type { LearnedEvent } from '#ingest/attribution/learned-events.ts';
import type { FormedPart } from '#ingest/formed-batch.ts';
import type { SimulatedRow } from './clickhouse-content.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { type Caller, call } from './server-call.ts';
import type { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { factsOf } from './simulated-records.ts';
import { deviceOf, partOf, simulatedApp } from './thin-former.ts';

const timeoutMs = 60_000;

export class SimulatedLateStore implements LateStore {
  readonly #server: SimulatedClickHouse;
  readonly #caller: Caller;

  constructor(server: SimulatedClickHouse, program: Program, machine: Machine) {
    this.#server = server;
    const unavailable = (why: string) => new ClickHouseFailure('unavailable', 0, why, undefined);
    this.#caller = { program, link: machine.link, timeoutMs, unavailable };
  }

  batchesWithInstalls(above: Cursor, upTo: Cursor, batchesMax: number): Promise<readonly BatchOfInstalls[]> {
    return this.#ask(() => {
      const batches = new Map<string, BatchOfInstalls>();
      for (const { table, log_partition, batch_no } of this.#server.rows) {
        if (table !== 'installs' || batch_no <= (above[log_partition] ?? 0)) continue;
        if (batch_no > (upTo[log_partition] ?? 0)) continue;
        const key = `${log_partition}:${batch_no}`;
        batches.set(key, { log_partition, batch_no, n: (batches.get(key)?.n ?? 0) + 1 });
      }
      const sorted = [...batches.values()].sort(
        (one, other) => one.batch_no - other.batch_no || one.log_partition - other.log_partition,
      );
      return sorted.slice(0, batchesMax);
    });
  }

  installsOf(batches: readonly BatchOfInstalls[]): Promise<readonly KnownInstall[]> {
    const wanted = new Set(batches.map(({ log_partition, batch_no }) => `${log_partition}:${batch_no}`));
    return this.#ask(() =>
      this.#server.rows
        .filter((row) => row.table === 'installs' && wanted.has(`${row.log_partition}:${row.batch_no}`))
        .map((row) => ({
          ...factsOf(row),
          organization_id: '',
          device_id: deviceOf(row.id),
          time_ms: row.time,
        })),
    );
  }

  waiting({ partition, keys, sinceMs, after, eventsMax }: WaitingFor): Promise<readonly EventRow[]> {
    const wanted = new Set(keys);
    return this.#ask(() => {
      const own = this.#server.rows.filter((row) => row.table === 'events' && row.log_partition === partition);
      const learned = new Set(own.filter(({ isLearned }) => isLearned).map(placeOf));
      return own
        .filter((row) => row.install === '' && row.time >= sinceMs && wanted.has(`d:${deviceOf(row.id)}`))
        .filter((row) => !learned.has(placeOf(row)) && (after === null || placeOf(row) > placeOf(after)))
        .sort((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1))
        .slice(0, eventsMax)
        .map(eventOf);
    });
  }

  firstWaiting(partition: number): Promise<number> {
    return this.#ask(() => {
      const waiting = this.#server.rows.filter(
        (row) => row.table === 'events' && row.log_partition === partition && row.install === '',
      );
      return waiting.length === 0 ? 0 : Math.min(...waiting.map(({ batch_no }) => batch_no));
    });
  }

  #ask<T>(carryOut: () => T): Promise<T> {
    return call(this.#caller, this.#server, carryOut);
  }
}

function placeOf({ producer_id, frame_no, idx }: Pick<EventRow, 'producer_id' | 'frame_no' | 'idx'>): string {
  return `${producer_id}:${String(frame_no).padStart(12, '0')}:${String(idx).padStart(6, '0')}`;
}

/** A row in the form that attribution reads; `session_id` carries the number of the record. */
function eventOf({ n, id, time, producer_id, frame_no, idx }: SimulatedRow): EventRow {
  const utm = campaignFrom(() => '');
  return {
    ...{ event_id: id, organization_id: '', app_id: simulatedApp, name: '', time, received_at: time, install_id: '' },
    ...{ device_id: deviceOf(id), user_id: '', session_id: String(n), link_id: '', click_id: '', platform: '' },
    ...nowhere,
    ...utm,
    ...{ revenue_amount: '', revenue_currency: '', is_conversion: false, properties: '' },
    ...{ waiting_keys: [`d:${deviceOf(id)}`], producer_id, frame_no, idx },
  };
}

export function simulatedPartsOf(events: readonly LearnedEvent[], batch: BatchName): FormedPart[] {
  const months = new Map<string, SimulatedRow[]>();
  for (const { before, after } of events) {
    for (const [event, sign] of [
      [before, -1],
      [after, 1],
    ] as const) {
      const month = monthOf(event.time);
      const rows = months.get(month) ?? [];
      months.set(month, rows);
      const { time, producer_id, frame_no, idx, event_id: id, install_id: install } = event;
      const of = { log_partition: batch.partition, batch_no: batch.batch_no, sign, isLearned: true };
      rows.push({
        n: Number(event.session_id),
        table: 'events',
        month,
        producer_id,
        frame_no,
        idx,
        time,
        id,
        install,
        ...of,
      });
    }
  }
  return [...months.values()].map(partOf);
}
