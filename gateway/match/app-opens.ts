/**
 * Records openings of an installed app by a link, separately from installs and clicks. An opening has the id and the
 * time of its match, so that it is counted once even if recorded twice.
 */
import { timeOfId } from '#common/ids.ts';
import { installJson } from '#common/log/install-record.ts';
import { deviceRecord, type LinkCampaign } from '#gateway/install/device-record.ts';
import type { InstallStore } from '#gateway/install/install-store.ts';
import type { LinkIndex } from '#gateway/links/link-facts.ts';
import type { RecordWriter } from '#gateway/record-writer.ts';
import type { Asker } from './asker.ts';
import type { Match } from './match-result.ts';
import type { MatchFields } from './match-schema.ts';

/**
 * An opening is answered without waiting long for Postgres: if Postgres is slow, the opening is recorded without a
 * known install.
 */
const INSTALL_KNOWN_WITHIN_MS = 500;

export interface AppOpensParts {
  readonly installs: Pick<InstallStore, 'has'>;
  readonly links: Pick<LinkIndex, 'find'>;
  readonly records: RecordWriter;
}

export class AppOpens {
  /** Since the start of the process. */
  readonly counters = { reengagement: 0, deep_link: 0 };
  readonly #parts: AppOpensParts;

  constructor(parts: AppOpensParts) {
    this.#parts = parts;
  }

  /**
   * Records that a link opened the app directly. A request that reports an install is not an opening.
   * @returns false if it can't be recorded.
   */
  async byUrl(match: Match, link: LinkCampaign, fields: MatchFields, asker: Asker): Promise<boolean> {
    const { install_name, app } = asker;
    if (install_name === null) return true;
    const isKnown = install_name !== '' && (await this.#isInstalled(app.app_id, install_name));
    return await this.#record(isKnown ? 'reengagement' : 'deep_link', { match, link }, fields, asker);
  }

  /** Records that a device with a known install has claimed a later click. @returns false if it can't be recorded. */
  async byClick(match: Match, fields: MatchFields, asker: Asker): Promise<boolean> {
    const link = await this.#parts.links.find(match.app_id, match.link_id);
    return link !== undefined && (await this.#record('reengagement', { match, link }, fields, asker));
  }

  async #isInstalled(appId: string, name: string): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((done) => {
      timer = setTimeout(() => done(false), INSTALL_KNOWN_WITHIN_MS);
    });
    const known = this.#parts.installs.has(appId, name).catch(() => false);
    try {
      return await Promise.race([known, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #record(
    trigger: 'reengagement' | 'deep_link',
    { match, link }: { readonly match: Match; readonly link: LinkCampaign | null },
    fields: MatchFields,
    asker: Asker,
  ): Promise<boolean> {
    const time = timeOfId(match.match_id);
    const own = { install_id: match.match_id, time, installed_at: time, user_id: '', properties: '', trigger };
    const json = installJson(deviceRecord(fields, asker, { match, link }, own));
    const isKept = await this.#parts.records.write('install', match.app_id, [{ id: match.match_id, json }]);
    if (isKept) this.counters[trigger]++;
    return isKept;
  }
}
