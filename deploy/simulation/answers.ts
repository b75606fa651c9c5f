/**
 * The ledger of a simulation: each record that its clients sent, and the answer that they received. The stores are
 * checked against it. An accepted record is stored exactly once; a refused or unanswered one at most once. Installs and
 * events that were sent several times under one id are stored once.
 */
import { DAY_MS } from '#common/durations.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { SimulatedRow } from './clickhouse-content.ts';
import { deviceOf } from './thin-former.ts';

type Answer = 'open' | 'kept' | 'refused' | 'forgiven';

/** A record as a client sends it. */
export interface SentWhat {
  readonly kind: RecordKind;
  /** Of an install or event; empty for a click. */
  readonly id: string;
  /** Epoch milliseconds by a right clock. */
  readonly time: number;
}

interface SentRecord extends SentWhat {
  readonly slot: string;
  readonly sentAt: number;
  answer: Answer;
  answeredAt: number;
  /** It was stored, and a restore lost it before its answer was sent. */
  isWrittenOff: boolean;
}

export interface Judgement {
  readonly lost: readonly number[];
  readonly duplicated: readonly number[];
  readonly phantom: readonly number[];
}

/** An event id is unique for a day, an install id permanently. */
const dayMs = DAY_MS;

export class Answers {
  /** False if clocks were wrong: then the time of a record does not tell whether an event is a repeat. */
  areTimesRight = true;
  readonly #records: SentRecord[] = [];

  /** @returns the number of a record that is about to be sent. */
  open(slot: string, now: number, what: SentWhat): number {
    return this.#records.push({ slot, sentAt: now, answer: 'open', answeredAt: 0, isWrittenOff: false, ...what }) - 1;
  }

  settle(number: number, answer: 'kept' | 'refused', now: number): void {
    const record = this.#records[number];
    if (record === undefined || record.answer !== 'open') throw new Error(`record ${number} has already been answered`);
    record.answer = answer === 'kept' && record.isWrittenOff ? 'forgiven' : answer;
    record.answeredAt = now;
  }

  /** After a power loss: records answered in this period may be lost, as far as the sync setting allows it. */
  forgive(slot: string, since: number, until = Number.POSITIVE_INFINITY): void {
    for (const record of this.#records) {
      const { answeredAt } = record;
      const isWithin = answeredAt >= since && answeredAt <= until;
      if (record.slot === slot && record.answer === 'kept' && isWithin) record.answer = 'forgiven';
    }
  }

  /**
   * Stops expecting rows that a restore lost and that the log no longer has either. @returns how many accepted or
   * unanswered records this affects.
   */
  writeOff(rows: readonly SimulatedRow[], inLog: ReadonlyMap<string, readonly number[]>): number {
    const lost = new Set(rows.map(({ n, id }) => nameOf(n, id)));
    let count = 0;
    for (const [n, record] of this.#records.entries()) {
      const name = nameOf(n, record.id);
      const isDue = record.answer === 'kept' || record.answer === 'open';
      if (!isDue || !lost.has(name)) continue;
      if (inLog.get(name)?.some((time) => this.#isSame(record.kind, time, record.time)) === true) continue;
      if (record.answer === 'kept') record.answer = 'forgiven';
      record.isWrittenOff = true;
      count++;
    }
    return count;
  }

  #isSame(kind: RecordKind, one: number, other: number): boolean {
    return isSame(this.areTimesRight && kind === 'event', one, other);
  }

  count(answer: Answer): number {
    return this.#records.reduce((count, record) => count + (record.answer === answer ? 1 : 0), 0);
  }

  get sent(): number {
    return this.#records.length;
  }

  /** How many records were sent with the id of an earlier one. */
  get repeats(): number {
    const named = this.#records.filter(({ id }) => id !== '');
    return named.length - new Set(named.map(({ id }) => id)).size;
  }

  /** When a record was sent and answered, for debugging. */
  describe(number: number): string {
    const record = this.#records[number];
    if (record === undefined) return `record ${number} was never sent`;
    const { kind, id, slot, sentAt, answer, answeredAt } = record;
    return `record ${number} (${kind} ${id}) of ${slot}, sent ${(sentAt / 1000).toFixed(4)}, ${answer} ${(answeredAt / 1000).toFixed(4)}`;
  }

  /** @param expired rows that were stored, until they were too old. */
  judge(rows: readonly SimulatedRow[], expired: readonly SimulatedRow[] = []): Judgement {
    const isGone = new Set(expired.map(({ n, id }) => nameOf(n, id)));
    const [lost, duplicated, phantom]: number[][] = [[], [], []];
    const clicks = new Map<number, number>();
    const byId = new Map<string, SimulatedRow[]>();
    for (const row of rows) {
      if (row.isLearned) continue;
      if (this.#records[row.n] === undefined) phantom?.push(row.n);
      if (row.id === '') {
        clicks.set(row.n, (clicks.get(row.n) ?? 0) + 1);
        continue;
      }
      const same = byId.get(row.id) ?? [];
      byId.set(row.id, same);
      // With wrong clocks, the copies of an install that a gateway journalled twice may get other times, too.
      const isDaily = row.table === 'events' || !this.areTimesRight;
      if (same.some((other) => isSame(isDaily, other.time, row.time))) duplicated?.push(row.n);
      same.push(row);
    }
    for (const [number, times] of clicks) if (times > 1) duplicated?.push(number);
    for (const [number, { answer, kind, id, time }] of this.#records.entries()) {
      if (answer !== 'kept') continue;
      const isStored =
        kind === 'click'
          ? clicks.has(number)
          : byId.get(id)?.some((row) => this.#isSame(kind, row.time, time)) === true;
      if (!isStored && !isGone.has(nameOf(number, id))) lost?.push(number);
    }
    return { lost: lost ?? [], duplicated: duplicated ?? [], phantom: phantom ?? [] };
  }
}

/** Records with the same key count as one. */
export function nameOf(n: number, id = ''): string {
  return id === '' ? String(n) : id;
}

function isSame(isEvent: boolean, one: number, other: number): boolean {
  return !isEvent || Math.abs(one - other) <= dayMs;
}

/**
 * Events that do not count exactly once, that lack an install although one arrived in time, or that have the install of
 * another device.
 */
export function wronglyAttributed(rows: readonly SimulatedRow[], windowMs: number): string[] {
  const installs = new Map<string, number>();
  const places = new Map<string, { readonly event: SimulatedRow; readonly counts: Map<string, number> }>();
  for (const row of rows) {
    const { table, log_partition, producer_id, frame_no, idx, id, time, install, sign } = row;
    const device = id === '' ? '' : deviceOf(id);
    if (table === 'installs') installs.set(device, Math.min(installs.get(device) ?? time, time));
    if (table !== 'events') continue;
    const key = `${log_partition}:${producer_id}:${frame_no}:${idx}`;
    const place = places.get(key) ?? { event: row, counts: new Map<string, number>() };
    places.set(key, place);
    place.counts.set(install, (place.counts.get(install) ?? 0) + sign);
  }
  return [...places.values()].flatMap(({ event, counts }) => {
    const effective = [...counts].filter(([, count]) => count !== 0);
    const [install = '', count] = effective[0] ?? [];
    if (effective.length !== 1 || count !== 1) return [`event ${event.id} counts as ${JSON.stringify(effective)}`];
    const first = installs.get(deviceOf(event.id));
    const isDue = first !== undefined && first - event.time <= windowMs;
    if (install === '' && isDue) return [`event ${event.id} has no install, although one arrived at ${first}`];
    return install !== '' && deviceOf(install) !== deviceOf(event.id) ? [`event ${event.id} has ${install}`] : [];
  });
}
