/**
 * Local time in a time zone, and the starts of local days, according to the tz database in Node. A local time is
 * represented as the epoch milliseconds at which a clock in UTC shows it.
 */
import { Temporal } from 'temporal-polyfill';
import { HOUR_MS } from '#common/durations.ts';

/** Null for a name that is not in the tz database. */
export function zoneNamed(name: string): Zone | null {
  // Offsets such as +05:30 are not IANA names, although Temporal accepts them.
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]{0,63}$/.test(name)) return null;
  try {
    return new Zone(name);
  } catch {
    return null;
  }
}

export class Zone {
  readonly name: string;

  /** @throws RangeError for an unknown name. */
  constructor(name: string) {
    this.name = name;
    this.#at(0);
  }

  /** The local time at an instant. */
  localAt(epochMs: number): number {
    return epochMs + this.#at(epochMs).offsetNanoseconds / 1e6;
  }

  /**
   * The first instant at which the clock shows this time or a later one: the first of two if the hour is repeated, the
   * end of the gap if it is skipped.
   */
  instantOf(localMs: number): number {
    const local = Temporal.Instant.fromEpochMilliseconds(localMs).toZonedDateTimeISO('UTC').toPlainDateTime();
    const found = local.toZonedDateTime(this.name, { disambiguation: 'earlier' });
    const isSkipped = !found.toPlainDateTime().equals(local);
    return (isSkipped ? found.getTimeZoneTransition('next') : null)?.epochMilliseconds ?? found.epochMilliseconds;
  }

  startOfHour(epochMs: number): number {
    const local = this.localAt(epochMs);
    const hour = Math.floor(local / HOUR_MS) * HOUR_MS;
    const start = epochMs - (local - hour);
    // Otherwise the clock has changed since the start of the hour, for example by half an hour (Lord Howe Island).
    return this.localAt(start) === hour ? start : this.instantOf(hour);
  }

  startOfDay(epochMs: number): number {
    return this.addDays(epochMs, 0);
  }

  /** The start of the local day `days` after that of the instant. */
  addDays(epochMs: number, days: number): number {
    return this.#startOf(this.#dayAt(epochMs).add({ days }));
  }

  /** The start of the month `months` after that of the instant. */
  addMonths(epochMs: number, months: number): number {
    return this.#startOf(this.#dayAt(epochMs).with({ day: 1 }).add({ months }));
  }

  /** The start of the Monday (ISO 8601) of the instant's week, `weeks` later. */
  addWeeks(epochMs: number, weeks: number): number {
    const day = this.#dayAt(epochMs);
    return this.#startOf(day.add({ days: weeks * 7 + 1 - day.dayOfWeek }));
  }

  isStartOfDay(epochMs: number): boolean {
    return this.startOfDay(epochMs) === epochMs;
  }

  #at(epochMs: number): Temporal.ZonedDateTime {
    return Temporal.Instant.fromEpochMilliseconds(epochMs).toZonedDateTimeISO(this.name);
  }

  #dayAt(epochMs: number): Temporal.PlainDate {
    return this.#at(epochMs).toPlainDate();
  }

  #startOf(day: Temporal.PlainDate): number {
    return day.toZonedDateTime(this.name).epochMilliseconds;
  }
}

export const utc = new Zone('UTC');
