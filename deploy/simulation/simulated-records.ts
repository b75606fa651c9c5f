/** Ingest's `StoredRecords` on the simulated ClickHouse: queries about stored installs and events. */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { campaignFrom } from '#common/campaign-fields.ts';
import { nowhere } from '#common/country-database.ts';
import type {
  IdKind,
  StoredId,
  StoredInstall,
  StoredRange,
  StoredRecord,
  StoredRecords,
} from '#ingest/attribution/stored-records.ts';
import type { SimulatedRow } from './clickhouse-content.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { type Caller, call } from './server-call.ts';
import type { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { deviceOf, simulatedApp } from './thin-former.ts';

const timeoutMs = 60_000;

export class SimulatedRecords implements StoredRecords {
  readonly #server: SimulatedClickHouse;
  readonly #caller: Caller;

  constructor(server: SimulatedClickHouse, program: Program, machine: Machine) {
    this.#server = server;
    const unavailable = (why: string) => new ClickHouseFailure('unavailable', 0, why, undefined);
    this.#caller = { program, link: machine.link, timeoutMs, unavailable };
  }

  count(kind: IdKind, range: StoredRange): Promise<number> {
    return this.#ask(() => this.#rowsOf(kind, range).length);
  }

  async *ids(kind: IdKind, range: StoredRange): AsyncIterable<readonly StoredId[]> {
    yield await this.#ask(() =>
      this.#rowsOf(kind, range).map(({ id, time }) => ({ app_id: simulatedApp, id, at: time })),
    );
  }

  withIds(
    kind: IdKind,
    _apps: readonly string[],
    ids: readonly string[],
    range: StoredRange,
  ): Promise<readonly StoredRecord[]> {
    const wanted = new Set(ids);
    return this.#ask(() =>
      this.#rowsOf(kind, range)
        .filter(({ id }) => wanted.has(id))
        .map(({ id, time, log_partition, producer_id, frame_no, idx }) => {
          return { app_id: simulatedApp, id, received_at: time, log_partition, producer_id, frame_no, idx };
        }),
    );
  }

  newestInstalls(column: 'install_id' | 'device_id', apps: readonly string[], ids: readonly string[]) {
    if (column === 'install_id' || apps.length === 0) return Promise.resolve([]);
    const wanted = new Set(ids);
    return this.#ask(() => {
      const newest = new Map<string, SimulatedRow>();
      for (const row of this.#server.rows) {
        const device = row.table === 'installs' ? deviceOf(row.id) : '';
        if (wanted.has(device) && (newest.get(device)?.time ?? 0) <= row.time) newest.set(device, row);
      }
      return [...newest].map(([device_id, row]): StoredInstall => ({ ...factsOf(row), device_id }));
    });
  }

  #rowsOf(kind: IdKind, { receivedFromMs }: StoredRange): SimulatedRow[] {
    return this.#server.rows.filter((row) => row.table === `${kind}s` && row.time >= receivedFromMs);
  }

  #ask<T>(carryOut: () => T): Promise<T> {
    return call(this.#caller, this.#server, carryOut);
  }
}

/** What an event inherits from an install. Only its id matters here; it also stands for the link. */
export function factsOf({ id }: SimulatedRow) {
  const utm = campaignFrom(() => '');
  return { app_id: simulatedApp, install_id: id, link_id: id, click_id: '', platform: '', ...nowhere, ...utm };
}
