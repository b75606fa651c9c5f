/**
 * The statements about fences that ingest sends to ClickHouse, on simulated Join tables: the table of fences, and the
 * copies by which it is replaced once it is large. Files of such a table are synced only on request.
 */
import { type ClickHouse, ClickHouseFailure, type Params } from '#clickhouse/client.ts';
import type { Fence } from '#ingest/raw-store.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';

/** By partition of the log. */
export type FenceTable = ReadonlyMap<number, Fence>;
export type FenceTables = ReadonlyMap<string, FenceTable>;

/** The part of the simulated ClickHouse that has them. */
interface FenceServer {
  readonly fenceTables: FenceTables;
  readonly fenceFiles: FenceFiles;
  fenceOf(partition: number): Fence;
  setFenceTables(tables: FenceTables): void;
  running(partition: number): number;
  kill(partition: number): void;
  /** A moment of a statement. */
  soon(): Promise<void>;
}

export const fencesName = 'fences';

/** The files of fences: one for each raise, until the table is replaced. */
export class FenceFiles {
  readonly hits = { raised: 0, replaced: 0 };
  /** Bytes in memory for each raise. */
  bytesEach = 5_000;
  synced: FenceTables = new Map();
  #raised = 0;

  get bytes(): number {
    return this.#raised * this.bytesEach;
  }

  noteRaise(): void {
    this.#raised++;
    this.hits.raised++;
  }

  noteReplacement(): void {
    this.#raised = 0;
    this.hits.replaced++;
  }

  sync(tables: FenceTables): void {
    this.synced = tables;
  }

  /** Some of the files that were not synced are gone. */
  afterPowerLoss(tables: FenceTables, random: SeededRandom): FenceTables {
    return new Map(
      [...tables].map(([name, rows]) => [name, random.next() < 0.5 ? rows : (this.synced.get(name) ?? rows)] as const),
    );
  }
}

const unknownTable = 60;
const nothing: Fence = { batchNoMin: 0, owner: '' };

/** Executes a statement. A statement that reads and writes does both at different moments. */
type Execute = (server: FenceServer, sql: string, params: Params) => object[] | Promise<object[]>;

/** Of a statement that returns no rows. */
const doing =
  (act: (server: FenceServer, sql: string, params: Params) => void | Promise<void>): Execute =>
  async (server, sql, params) => {
    await act(server, sql, params);
    return [];
  };

const statements: readonly (readonly [shape: RegExp, execute: Execute])[] = [
  [
    /^INSERT INTO fences SELECT \{partition/,
    doing(async (server, sql, { partition, min, owner, reach }) => {
      const known = server.fenceOf(Number(partition));
      const isOwn = known.owner === owner;
      const isLower = known.batchNoMin < Number(min);
      await server.soon();
      const isSet = sql.includes('WHERE NOT (') ? !isOwn || isLower : isOwn && isLower;
      const batchNoMin = Math.max(Number(min), known.batchNoMin + (isOwn ? 0 : Number(reach)));
      if (isSet) add(server, fencesName, new Map([[Number(partition), { batchNoMin, owner: String(owner) }]]));
    }),
  ],
  [
    /^SELECT joinGet\('fences', 'batch_no_min'/,
    (server, _, { partition }) => {
      const { batchNoMin: min, owner } = server.fenceOf(Number(partition));
      return [{ min, owner }];
    },
  ],
  [
    /^SELECT name FROM system\.tables/,
    ({ fenceTables }) => [...fenceTables.keys()].filter((name) => name !== fencesName).map((name) => ({ name })),
  ],
  [/^SELECT assumeNotNull\(total_bytes\)/, (server) => [{ bytes: server.fenceFiles.bytes }]],
  [
    /^SELECT count\(\) AS rows FROM fences/,
    (server, _, { copy }) => [{ rows: higherIn(tableOf(server, fencesName), tableOf(server, String(copy))).size }],
  ],
  [
    /^SELECT count\(\) AS n FROM system\.processes/,
    (server, _, params) => [{ n: server.running(partitionIn(params)) }],
  ],
  [/^KILL QUERY/, doing((server, _, params) => server.kill(partitionIn(params)))],
  [/^SYSTEM SYNC FILE CACHE/, doing((server) => server.fenceFiles.sync(server.fenceTables))],
  [
    /^DROP TABLE IF EXISTS `(\w+)`/,
    doing((server, sql) => {
      const tables = new Map(server.fenceTables);
      tables.delete(nameIn(sql));
      server.setFenceTables(tables);
    }),
  ],
  [
    /^CREATE TABLE `(\w+)` AS fences/,
    doing((server, sql) => server.setFenceTables(new Map(server.fenceTables).set(nameIn(sql), new Map()))),
  ],
  [
    /^INSERT INTO `(\w+)` SELECT .* FROM fences$/,
    doing(async (server, sql) => {
      const rows = tableOf(server, fencesName);
      await server.soon();
      add(server, nameIn(sql), rows);
    }),
  ],
  [
    /^EXCHANGE TABLES fences AND `(\w+)`/,
    doing((server, sql) => {
      const [table, copy] = [tableOf(server, fencesName), tableOf(server, nameIn(sql))];
      server.fenceFiles.noteReplacement();
      server.setFenceTables(new Map(server.fenceTables).set(fencesName, copy).set(nameIn(sql), table));
    }),
  ],
  [
    /^INSERT INTO fences SELECT .* FROM `(\w+)` WHERE/,
    doing(async (server, sql) => {
      const rows = higherIn(tableOf(server, nameIn(sql)), tableOf(server, fencesName));
      await server.soon();
      add(server, fencesName, rows);
    }),
  ],
];

/** @param call sends a statement to the server, and brings its answer. */
export function fenceClientOf(
  server: FenceServer,
  call: (execute: () => object[] | Promise<object[]>) => Promise<object[]>,
): ClickHouse {
  const query = (sql: string, params: Params = {}) => {
    const text = sql.trim();
    const found = statements.find(([shape]) => shape.test(text));
    if (found === undefined) throw new Error(`the simulated ClickHouse does not know the statement ${text}`);
    return call(() => found[1](server, text, params));
  };
  return { query, command: query } as unknown as ClickHouse;
}

function nameIn(sql: string): string {
  return /`(\w+)`/.exec(sql)?.[1] ?? '';
}

/** From the prefix of the ids of its queries. */
function partitionIn({ of }: Params): number {
  return Number(String(of).split(':')[1]);
}

function tableOf({ fenceTables }: FenceServer, name: string): FenceTable {
  const table = fenceTables.get(name);
  if (table === undefined) throw new ClickHouseFailure('refused', unknownTable, `${name} does not exist`, undefined);
  return table;
}

function add(server: FenceServer, name: string, rows: FenceTable): void {
  const table = tableOf(server, name);
  server.setFenceTables(new Map(server.fenceTables).set(name, new Map([...table, ...rows])));
  if (name === fencesName && rows.size > 0) server.fenceFiles.noteRaise();
}

/** The rows that another table lacks or has lower. */
function higherIn(table: FenceTable, other: FenceTable): FenceTable {
  return new Map(
    [...table].filter(([partition, one]) => (other.get(partition) ?? nothing).batchNoMin < one.batchNoMin),
  );
}
