/**
 * Blanks records of erased people that are still in journals and the log. The row keeps its position, link and amounts,
 * so that sums stay correct and the audit finds it, and loses everything that identifies a person.
 *
 * Only records received before an erasure are checked: if all erasures are older than a frame, this costs one
 * comparison per frame, and without erasures nothing.
 */
import type { EventRow } from '#clickhouse/rows-events.ts';
import type { InstallRow } from '#clickhouse/rows-installs.ts';
import type { MatchRow } from '#clickhouse/rows-matches.ts';
import { addressNetworkOf, withoutHash } from '#common/address-writer.ts';
import { familyOf } from '#common/device-family.ts';
import { type ErasableKind, erasedIdHash } from '#common/erased-ids.ts';
import type { Click } from '#common/log/record.ts';
import type { Queries } from '#common/stores/postgres.ts';
import { devicesIn } from './attribution/waiting-keys.ts';

interface Erasure {
  readonly organization_id: string;
  readonly until_ms: number;
  readonly salt: string;
  /** Null to erase everything of the organization. */
  readonly hashes: ReadonlySet<string> | null;
}

/** More than are expected within their retention; only the newest are applied. */
const erasuresMax = 10_000;
export const refreshMs = 5_000;

type Ids = Partial<Record<ErasableKind, string>>;

/** One generic user agent per kind of device, so that a click keeps its platform. */
const plainAgents = {
  ios: 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile/15E148 Safari/604.1',
  android:
    'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36',
  other: 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36',
} as const;

export class Erasures {
  #all: readonly Erasure[] = [];
  #newestMs = 0;
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  /** @throws PostgresUnavailable; the erasures read before stay in force. */
  async refresh(): Promise<void> {
    const rows = await this.#db.query<Omit<Erasure, 'hashes'> & { hashes: string[] | null }>(
      `SELECT organization_id, until_ms, salt, hashes FROM ingest.erasure WHERE expires_at > signpost_deletion_time() ORDER BY id DESC LIMIT $1`,
      [erasuresMax],
      'erasures',
    );
    this.#all = rows.map((row) => ({ ...row, hashes: row.hashes && new Set(row.hashes) }));
    this.#newestMs = Math.max(0, ...rows.map(({ until_ms }) => until_ms));
  }

  /** Whether a record of this time (epoch ms) may belong to an erased person. */
  mayCover(timeMs: number): boolean {
    return timeMs <= this.#newestMs;
  }

  click(click: Click): Click {
    const { click_id, organization_id, time } = click;
    if (!this.#covers(organization_id, time, { click: click_id })) return click;
    return {
      ...click,
      click_id: '',
      privacy_mode: 'no_ip',
      ip: addressNetworkOf(withoutHash(click.ip)),
      user_agent: plainAgents[familyOf(click.user_agent)],
      language: '',
      query: '',
    };
  }

  install(row: InstallRow): InstallRow {
    const { install_id: install, device_id: device, user_id: user, click_id: click } = row;
    if (!this.#covers(row.organization_id, row.time, { install, device, user, click })) return row;
    return { ...row, ...blankInstall };
  }

  event(row: EventRow): EventRow {
    const { install_id: install, device_id: device, user_id: user, click_id: click } = row;
    const { organization_id, received_at } = row;
    if (!this.mayCover(received_at)) return row;
    const isCovered =
      this.#covers(organization_id, received_at, { install, device, user, click }) ||
      devicesIn(row.waiting_keys).some((alias) => this.#covers(organization_id, received_at, { device: alias }));
    return isCovered ? { ...row, ...blankEvent } : row;
  }

  /** A match is also covered by any click that it was compared with: its details about that click are erased too. */
  match(row: MatchRow): MatchRow {
    if (!this.mayCover(row.time)) return row;
    const { organization_id, device_id: device, install_id: install, click_id: click } = row;
    const clicks = new Set([click, row.shadow_click_id, ...(row.detail.match(clickIds) ?? [])]);
    const isCovered =
      this.#covers(organization_id, row.time, { device, install }) ||
      [...clicks].some((one) => this.#covers(organization_id, row.time, { click: one }));
    return isCovered ? { ...row, ...blankMatch } : row;
  }

  #covers(organizationId: string, timeMs: number, ids: Ids): boolean {
    if (!this.mayCover(timeMs)) return false;
    return this.#all.some(({ organization_id, until_ms, salt, hashes }) => {
      if (organization_id !== organizationId || timeMs > until_ms) return false;
      if (hashes === null) return true;
      return (Object.entries(ids) as [ErasableKind, string][]).some(
        ([kind, id]) => id !== '' && hashes.has(erasedIdHash(salt, organizationId, kind, id)),
      );
    });
  }
}

const clickIds = /clk_[0-9a-z]{26}/g;

const blankMatch = {
  match_id: '',
  device_id: '',
  install_id: '',
  click_id: '',
  shadow_click_id: '',
  ip: '',
  detail: '',
};
const blankInstall = {
  install_id: '',
  click_id: '',
  device_id: '',
  user_id: '',
  match_id: '',
  os_version: '',
  device_model: '',
  language: '',
  ip: '',
  properties: '',
};
const blankEvent = {
  event_id: '',
  install_id: '',
  device_id: '',
  user_id: '',
  session_id: '',
  click_id: '',
  properties: '',
  waiting_keys: [],
};
