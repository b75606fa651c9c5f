/** Handles reports that a link opened the app: finds the link by its URL, and records the opening as a click. */
import type { AddressWriter } from '#common/address-writer.ts';
import type { Clock } from '#common/clock.ts';
import { type Rejection, unavailable } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import type { FoundLink, LinkCache } from '#common/links/link-cache.ts';
import { isLongLink, readLongLink } from '#common/links/long-link.ts';
import type { LongLinks } from '#common/links/long-links.ts';
import type { QueryFilter } from '#common/links/query-filter.ts';
import { codeOfPath, isOrdinaryCode } from '#common/links/short-code.ts';
import { clickJson } from '#common/log/click-line.ts';
import { campaignOf, type LinkCampaign } from '#gateway/install/device-record.ts';
import type { RecordWriter } from '#gateway/record-writer.ts';
import type { Asker } from './asker.ts';
import type { MatchFields } from './match-schema.ts';

export interface LinkOpen {
  readonly click_id: string;
  readonly link_id: string;
  /** Epoch milliseconds. */
  readonly time: number;
  readonly query: string;
  readonly link: LinkCampaign;
}

export interface LinkOpensParts {
  readonly cache: Pick<LinkCache, 'find' | 'apps' | 'clock'>;
  readonly longLinks: Pick<LongLinks, 'find'>;
  readonly records: RecordWriter;
  readonly clock: Clock;
  readonly addresses: AddressWriter;
  readonly queryFilter: QueryFilter;
}

export class LinkOpens {
  readonly #cache: LinkOpensParts['cache'];
  readonly #longLinks: LinkOpensParts['longLinks'];
  readonly #records: RecordWriter;
  readonly #clock: Clock;
  readonly #addresses: AddressWriter;
  readonly #queryFilter: QueryFilter;

  constructor({ cache, longLinks, records, clock, addresses, queryFilter }: LinkOpensParts) {
    this.#cache = cache;
    this.#longLinks = longLinks;
    this.#records = records;
    this.#clock = clock;
    this.#addresses = addresses;
    this.#queryFilter = queryFilter;
  }

  /** The URL in the form that may be stored. */
  recorded(url: string): string {
    const at = url.indexOf('?');
    return at === -1 ? url : url.slice(0, at + 1) + this.#queryFilter.recorded(url.slice(at + 1));
  }

  /** `unusable` for a short link that is archived, deleted or another app's; null for any other URL. */
  async record(url: string, fields: MatchFields, asker: Asker): Promise<LinkOpen | Rejection | 'unusable' | null> {
    if (!URL.canParse(url)) return null;
    const { hostname, pathname, search } = new URL(url);
    const code = codeOfPath(pathname);
    const short = code === null ? null : await this.#cache.find(hostname, code);
    const long = short === null ? await this.#longLink(hostname, pathname, search, asker) : null;
    if (long === 'unusable') return 'unusable';
    const found = long === null ? short : long?.found;
    if (found === undefined)
      return unavailable('Links cannot be looked up at the moment. Send the request again later.');
    // Other paths of the app's host may be paths within the app.
    if (found === null) return code !== null && hostname === asker.app.host && isOrdinaryCode(code) ? 'unusable' : null;
    const { link, app } = found;
    const time = this.#clock();
    // An expired link still works inside the app: the app is already open, and there is no other destination.
    if (link.archived || app.id !== asker.app.app_id) return 'unusable';
    const open = {
      click_id: newId('clk', time),
      link_id: link.id,
      time,
      query: this.#queryFilter.recorded(long?.query ?? search.slice(1)),
      link,
    };
    const json = clickJson({
      click_id: open.click_id,
      organization_id: app.organization_id,
      app_id: app.id,
      link_id: link.id,
      time,
      ip: this.#addresses.ofClick(asker.ip, app.privacy_mode, time),
      privacy_mode: app.privacy_mode,
      user_agent: fields.user_agent || userAgentOf(fields, asker.user_agent),
      language: fields.language ?? '',
      referrer: '',
      query: open.query,
      ...campaignOf(link, open.query),
      trigger: 'universal_link',
      rule: '',
      is_prefetch: false,
      is_preview: false,
    });
    const isKept = await this.#records.write('click', app.id, [{ id: open.click_id, json }]);
    return isKept ? open : unavailable('The opening cannot be recorded at the moment. Send the request again later.');
  }

  /**
   * A Firebase long link, which is created as a link if it does not exist yet. Null if the URL is not a long link;
   * undefined if no store answers.
   */
  async #longLink(
    host: string,
    path: string,
    search: string,
    asker: Asker,
  ): Promise<{ readonly found: FoundLink; readonly query: string } | 'unusable' | null | undefined> {
    if (!search.includes('link=')) return null;
    const app = this.#cache.apps.get(host, this.#cache.clock()) ?? (await this.#cache.apps.load(host));
    if (!app) return app;
    if (!isLongLink(app, path, search.slice(1))) return null;
    if (app.id !== asker.app.app_id) return 'unusable';
    const long = readLongLink(app, search.slice(1));
    if ('reason' in long) return 'unusable';
    const finding = await this.#longLinks.find(app, long, true);
    if (finding.kind === 'found') return { found: finding.found, query: long.query };
    const isTemporary = finding.kind === 'not_made' && ['busy', 'unavailable'].includes(finding.reason);
    return isTemporary ? undefined : 'unusable';
  }
}

/**
 * A native app's own requests name its HTTP library as user agent, but statistics by platform need the device. So the
 * fields that the SDK reports are formatted as a browser user agent of that platform.
 */
function userAgentOf({ platform, os_version, device_model }: MatchFields, header: string): string {
  const version = /^\d+(\.\d+)*/.exec(os_version ?? '')?.[0] ?? '';
  switch (platform) {
    case 'ios': {
      const device = (device_model ?? '').startsWith('iPad') ? 'iPad' : 'iPhone';
      const system = version === '' ? '' : `OS ${version.replaceAll('.', '_')} `;
      return `Mozilla/5.0 (${device}; CPU ${device === 'iPad' ? '' : 'iPhone '}${system}like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148`;
    }
    case 'android': {
      const model = (device_model ?? '').replace(/[^\w ()+.-]/g, '').slice(0, 64) || 'K';
      return `Mozilla/5.0 (Linux; Android ${version || '10'}; ${model}; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/120.0.0.0 Mobile Safari/537.36`;
    }
    case 'web':
      return header;
  }
}
