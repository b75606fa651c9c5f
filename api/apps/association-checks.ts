/**
 * Fetches the association files of an app's host as phones and stores do, and reports what is wrong with them.
 *
 * Bounds: one request for each file and one to Apple's copy, each for `timeLimitMs` and ASSOCIATION_BYTES_MAX;
 * `perMinuteMax` checks for each organization, and `concurrentMax` at once in a process. Nothing is requested from a
 * host that its organization has not verified.
 */
import { resolveWith } from '#common/host-addresses.ts';
import { type Rejection, rateLimited } from '#common/http/rejection.ts';
import { type LinkedAppRow, linkedAppOf } from '#common/links/link-snapshot.ts';
import { type ShortUrl, shortUrlWith } from '#common/links/short-url.ts';
import { type OutboundRules, outboundRequest } from '#common/outbound-request.ts';
import type { Config } from '#common/process/settings.ts';
import type { RateLimiter } from '#common/rate-limit.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { androidAssociation, appleAssociation } from '#common/redirect/association.ts';
import {
  ASSOCIATION_BYTES_MAX,
  type AssociationProblem,
  type Judge,
  judgeAndroid,
  judgeApple,
  problemsOf,
} from './association-problems.ts';

const perMinuteMax = 10;
const concurrentMax = 16;
const timeLimitMs = 5_000;
/** Maximum length of a header value that is shown. */
const HEADER_CHARACTERS_MAX = 500;

/** Headers in which Apple's CDN gives the age of its copy, or why it has none. */
export const shownHeaders = ['age', 'apple-from', 'apple-failure-reason', 'apple-failure-details'] as const;
type ShownHeader = (typeof shownHeaders)[number];

export const associationFiles = ['apple-app-site-association', 'assetlinks.json'] as const;
export const associationSources = ['host', 'apple_cdn'] as const;

/** An app as it is stored. */
interface CheckedApp extends Omit<LinkedAppRow, 'settings'> {
  readonly host_verified_at: Date | null;
}

interface Target {
  readonly file: (typeof associationFiles)[number];
  readonly source: (typeof associationSources)[number];
  readonly url: string | null;
  /** The file as this installation serves it; null if it serves none. */
  readonly expected: string | null;
  readonly judge: Judge;
}

export interface CheckedFile extends Pick<Target, 'file' | 'source' | 'url'> {
  /** Null if there was no request or no response. */
  readonly status: number | null;
  readonly content_type: string | null;
  readonly bytes: number | null;
  readonly location: string | null;
  readonly headers: Readonly<Partial<Record<ShownHeader, string>>>;
  /** `not_checked`: nothing was requested. */
  readonly outcome: 'good' | 'faulty' | 'not_checked';
  readonly problems: readonly AssociationProblem[];
}

export interface AssociationChecksOptions extends Pick<OutboundRules, 'resolve' | 'reachable'> {
  readonly limiter: Pick<RateLimiter, 'chargeApart'>;
  readonly shortUrl: ShortUrl;
  /** Base URL of Apple's CDN; if empty, it is not requested. */
  readonly appleCdnUrl: string;
  /** Replaced in tests. */
  readonly timeLimitMs?: number;
}

export class AssociationChecks {
  readonly #options: AssociationChecksOptions;
  #underWay = 0;

  constructor(options: AssociationChecksOptions) {
    this.#options = options;
  }

  /** A failed request is a result. A rejection means that the organization or this process has too many checks. */
  async check(app: CheckedApp): Promise<readonly CheckedFile[] | Rejection> {
    if (this.#underWay >= concurrentMax) return rateLimited(Math.ceil(timeLimitMs / 1000));
    this.#underWay++;
    try {
      const name = 'association-checks';
      const { rejection } = await this.#options.limiter.chargeApart(name, app.organization_id, perMinuteMax);
      if (rejection) return rejection;
      return await Promise.all(this.#targetsOf(app).map((target) => this.#fetch(target, app)));
    } finally {
      this.#underWay--;
    }
  }

  #targetsOf(row: CheckedApp): readonly Target[] {
    const { shortUrl, appleCdnUrl } = this.#options;
    const app = linkedAppOf({ ...row, settings: null });
    const [apple, android] = [appleAssociation(app), androidAssociation(app)];
    const own = (file: string) => new URL(`/.well-known/${file}`, shortUrl(app.host, '')).href;
    const copy = appleCdnUrl === '' ? null : `${appleCdnUrl.replace(/\/$/, '')}/a/v1/${app.host}`;
    const [appleFile, androidFile] = associationFiles;
    return [
      { file: appleFile, source: 'host', url: own(appleFile), expected: apple, judge: judgeApple },
      { file: androidFile, source: 'host', url: own(androidFile), expected: android, judge: judgeAndroid },
      { file: appleFile, source: 'apple_cdn', url: copy, expected: apple, judge: judgeApple },
    ];
  }

  async #fetch({ file, source, url, expected, judge }: Target, app: CheckedApp): Promise<CheckedFile> {
    const nothing = { status: null, content_type: null, bytes: null, location: null, headers: {} };
    const omitted = (problem: AssociationProblem): CheckedFile => {
      return { file, source, url, ...nothing, outcome: 'not_checked', problems: [problem] };
    };
    if (url === null) return omitted('apple_cdn_off');
    if (expected === null) return omitted('not_configured');
    if (app.host_verified_at === null) return omitted('host_not_verified');
    const { resolve, reachable } = this.#options;
    const headers = { 'user-agent': 'Signpost-Association-Check/1', accept: 'application/json, */*' };
    const outcome = await outboundRequest(
      { method: 'GET', url, headers, answerBytesMax: ASSOCIATION_BYTES_MAX },
      { resolve, reachable, timeLimitMs: this.#options.timeLimitMs ?? timeLimitMs },
    );
    if (outcome.kind === 'aborted') throw new Error('a request without a signal was aborted');
    const problems = problemsOf(outcome, expected, judge);
    const judged = { outcome: problems.length === 0 ? ('good' as const) : ('faulty' as const), problems };
    if (outcome.kind === 'failed') return { file, source, url, ...nothing, ...judged };
    const shown = (name: string) => textOf(outcome.headers[name]);
    const answer = {
      status: outcome.status,
      content_type: shown('content-type'),
      bytes: outcome.isWhole ? outcome.body.length : null,
      location: shown('location'),
      headers: source === 'host' ? {} : Object.fromEntries(shownHeaders.flatMap((name) => entryOf(name, shown(name)))),
    };
    return { file, source, url, ...answer, ...judged };
  }
}

export function associationChecksWith(
  config: Pick<
    Config,
    'SHORT_LINK_SCHEME' | 'SHORT_LINK_PORT' | 'DNS_SERVERS' | 'WEBHOOK_ALLOWED_NETWORKS' | 'APPLE_CDN_URL'
  >,
  limiter: AssociationChecksOptions['limiter'],
): AssociationChecks {
  return new AssociationChecks({
    limiter,
    shortUrl: shortUrlWith(config),
    resolve: resolveWith(config.DNS_SERVERS),
    reachable: new ReachableAddresses(config.WEBHOOK_ALLOWED_NETWORKS),
    appleCdnUrl: config.APPLE_CDN_URL,
  });
}

const entryOf = (name: ShownHeader, value: string | null) => (value === null ? [] : [[name, value] as const]);

function textOf(header: string | readonly string[] | undefined): string | null {
  return header === undefined ? null : String(header).slice(0, HEADER_CHARACTERS_MAX);
}
