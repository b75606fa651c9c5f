/**
 * Handles one install: look it up, otherwise match, store, journal, answer. An answer, first or repeated, is sent only
 * once the journal has the record: if the process that stored an install dies before that, the next request journals
 * it. A record that is journalled twice has the same install_id and is counted once.
 */
import { addressNetworkOf, keptAddress } from '#common/address-writer.ts';
import type { RecentInstalls } from '#common/attribution/recent-installs.ts';
import { type Clock, isoTime } from '#common/clock.ts';
import { Rejection, unavailable } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { installJson, reinstallJson } from '#common/log/install-record.ts';
import { linkBrief } from '#gateway/links/link-brief.ts';
import type { LinkIndex } from '#gateway/links/link-facts.ts';
import type { Asker } from '#gateway/match/asker.ts';
import type { Match } from '#gateway/match/match-result.ts';
import type { Matching } from '#gateway/match/matching.ts';
import { ASK_AGAIN_MS } from '#gateway/match/young-clicks.ts';
import type { RecordWriter } from '#gateway/record-writer.ts';
import { type Attribution, campaignOf, deviceRecord } from './device-record.ts';
import type { InstallFields } from './install-schema.ts';
import type { InstallAnswer, InstallNames, InstallStore, KeptInstall } from './install-store.ts';

export interface InstallationParts {
  readonly store: InstallStore;
  readonly matching: Matching;
  readonly links: LinkIndex;
  readonly installs: RecentInstalls;
  readonly records: RecordWriter;
  readonly clock: Clock;
  readonly shortUrl: ShortUrl;
}

export interface Installed {
  readonly install_id: string;
  readonly answer: InstallAnswer;
  readonly is_reinstall: boolean;
  readonly duplicate: boolean;
}

/** Values that the edge derived from the fields. */
export interface ReadInstall {
  /** Epoch milliseconds. */
  readonly installed_at: number;
  /** JSON text of an object, or empty. */
  readonly properties: string;
}

export class Installation {
  /** Since the start of the process. */
  readonly counters = { attributed: 0, organic: 0, duplicates: 0, refused: 0 };
  readonly #parts: InstallationParts;

  constructor(parts: InstallationParts) {
    this.#parts = parts;
  }

  async install(fields: InstallFields, read: ReadInstall, asker: Asker): Promise<Installed | Rejection> {
    const { store, records, clock } = this.#parts;
    if (!records.isOpen) return this.#refuse();
    const { app_id } = asker.app;
    const time = clock();
    const install_id = fields.install_id || newId('ins', time);
    const names = namesOf(fields, install_id);
    const known = await store.find(app_id, names.first);
    if (known) return this.#again(app_id, known);
    const attribution = await this.#attribute(fields, { ...asker, install_id });
    if (attribution instanceof Rejection) return attribution;
    const keep = (given: Attribution) => {
      const user_id = fields.user_id ?? '';
      const record = deviceRecord(fields, asker, given, { install_id, time, user_id, trigger: 'install', ...read });
      return store.keep({
        app_id,
        install_id,
        names,
        answer: answerOf(given, time, this.#parts.shortUrl),
        record: installJson(record),
        time,
      });
    };
    let given = attribution;
    let kept = await keep(given);
    if (kept === 'click_taken') {
      given = organic;
      kept = await keep(given);
    }
    if (kept === 'click_taken') throw new Error('an organic install reported its click as taken');
    if (!kept.is_new) return this.#again(app_id, kept);
    if (!(await this.#record(app_id, kept))) return this.#refuse();
    await this.#remember(fields, asker, install_id, given);
    this.counters[kept.answer.attributed ? 'attributed' : 'organic']++;
    return { install_id, answer: kept.answer, is_reinstall: kept.is_reinstall, duplicate: false };
  }

  async #again(appId: string, kept: KeptInstall): Promise<Installed | Rejection> {
    if (!(await this.#record(appId, kept))) return this.#refuse();
    this.counters.duplicates++;
    const { install_id, answer, is_reinstall } = kept;
    return { install_id, answer, is_reinstall, duplicate: true };
  }

  /** @returns whether the journal has the record. */
  async #record(appId: string, { install_id, record, is_reinstall }: KeptInstall): Promise<boolean> {
    if (record === null) return true;
    const json = is_reinstall ? reinstallJson(record) : record;
    if (!(await this.#parts.records.write('install', appId, [{ id: install_id, json }]))) return false;
    // If this fails, the next request journals the record again, which is counted once.
    await this.#parts.store.recorded(appId, install_id).catch(() => undefined);
    return true;
  }

  async #attribute(fields: InstallFields, asker: Asker): Promise<Attribution | Rejection> {
    const { links } = this.#parts;
    const match = await this.#match(fields, asker);
    if (match instanceof Rejection) return match;
    // The first answer is final, so it must wait for the click.
    if (match?.reason === 'click_pending') {
      return unavailable('The click has not been processed yet. Send the install again.', ASK_AGAIN_MS / 1000);
    }
    if (!match || match.match_type === 'none') return { match, link: null };
    const link = await links.find(asker.app.app_id, match.link_id);
    if (link === undefined) return unavailable();
    return { match, link };
  }

  async #match(fields: InstallFields, asker: Asker): Promise<Match | null | Rejection> {
    const { matching } = this.#parts;
    if (!fields.match_id) return matching.match(fields, asker);
    try {
      const match = await matching.byId(fields.match_id, asker.app.app_id);
      // A result without a match is not stored by id, so an unknown id may be that, or invented: match again.
      return match ?? (await matching.match(fields, asker));
    } catch {
      return unavailable('Matches cannot be looked up at the moment. Send the install again later.');
    }
  }

  /** Caches the install in Redis, so that the next events find it immediately. */
  async #remember(
    fields: InstallFields,
    { app, ip }: Asker,
    install_id: string,
    { match, link }: Attribution,
  ): Promise<void> {
    const facts = {
      install_id,
      link_id: match?.link_id ?? '',
      click_id: match?.click_id ?? '',
      platform: fields.platform,
      country: '',
      network: addressNetworkOf(keptAddress(ip, app.settings.privacy_mode)),
      ...campaignOf(link, match?.query ?? ''),
    };
    await this.#parts.installs.put(app.app_id, fields.device_id ?? '', facts).catch(() => undefined);
  }

  #refuse(): Rejection {
    this.counters.refused++;
    return unavailable('Installs cannot be stored at the moment. Send the install again later.');
  }
}

const organic: Attribution = { match: null, link: null };

/** An install is identified by its id, or by its device if the app sent no id. */
function namesOf(fields: InstallFields, installId: string): InstallNames {
  const device = `d:${fields.device_id ?? ''}`;
  const id = `i:${installId}`;
  if (!fields.install_id) return { first: device, second: id };
  return { first: id, second: fields.device_id ? device : id };
}

function answerOf({ match, link }: Attribution, time: number, shortUrl: ShortUrl): InstallAnswer {
  const attributed = match !== null && match.match_type !== 'none';
  return {
    attributed,
    match_type: match?.match_type ?? 'none',
    match_guaranteed: attributed && match.match_type !== 'probabilistic',
    confidence: match?.confidence ?? 0,
    click_id: match?.click_id || null,
    link: link ? linkBrief(link, shortUrl) : null,
    campaign: link?.campaign ?? null,
    created_at: isoTime(time),
  };
}
