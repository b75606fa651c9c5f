/** Local time in a time zone, optimized for frequent calls. */
import { DAY_MS, MINUTE_MS } from './durations.ts';

/** Time zones change their offsets only at full quarters of an hour. */
const quarterMs = 15 * MINUTE_MS;
/** By lower-case name, because zone names are case-insensitive. The tz database has about 600. */
const zones = new Map<string, LocalTime>();

/** Null for a name that the tz database of this Node lacks. */
export function localTimeOf(zone: string): LocalTime | null {
  const name = zone.toLowerCase();
  const known = zones.get(name) ?? LocalTime.in(name);
  // A name that does not exist is not cached, so the cache has as many entries as there are zones.
  if (known !== null) zones.set(name, known);
  return known;
}

export class LocalTime {
  readonly #format: Intl.DateTimeFormat;
  #quarter = Number.NaN;
  #offsetMs = 0;

  static in(zone: string): LocalTime | null {
    // Offsets such as +05:30 are not zone names, although Intl accepts them.
    if (!/^[A-Za-z][A-Za-z0-9_+\-/]{0,63}$/.test(zone)) return null;
    try {
      return new LocalTime(zone);
    } catch {
      return null;
    }
  }

  private constructor(timeZone: string) {
    const digits = 'numeric';
    this.#format = new Intl.DateTimeFormat('en-US', {
      ...{ timeZone, calendar: 'gregory', hourCycle: 'h23' },
      ...{ year: digits, month: digits, day: digits, hour: digits, minute: digits, second: digits },
    });
  }

  /** Minutes since Monday, 00:00. */
  minuteOfWeek(epochMs: number): number {
    const local = epochMs + this.#offsetAt(epochMs);
    // The epoch began on a Thursday.
    const days = Math.floor(local / DAY_MS) + 3;
    const minutes = Math.floor((local - Math.floor(local / DAY_MS) * DAY_MS) / MINUTE_MS);
    return (((days % 7) + 7) % 7) * 1_440 + minutes;
  }

  #offsetAt(epochMs: number): number {
    const quarter = Math.floor(epochMs / quarterMs);
    if (quarter !== this.#quarter) {
      const start = quarter * quarterMs;
      const parts = Object.fromEntries(
        this.#format.formatToParts(start).map(({ type, value }) => [type, Number(value)]),
      );
      const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
      this.#offsetMs = Date.UTC(year, month - 1, day, hour, minute, second) - start;
      this.#quarter = quarter;
    }
    return this.#offsetMs;
  }
}
