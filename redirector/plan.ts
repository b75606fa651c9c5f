/** What a visit of a link comes to. All that does not depend on the visitor is worked out once per link and change. */
import type { AppSnapshot, LinkSnapshot } from '#common/link-snapshot.ts';
import type { Click } from '#common/log/record.ts';
import {
  type Destination,
  destinationOf,
  effectiveUtm,
  expiredDestinationOf,
  type UtmFields,
  utmOf,
  webDestination,
} from './destination.ts';
import type { Device } from './device.ts';
import { hasPreview, previewPage } from './page.ts';
import type { Visitor } from './visitor.ts';

export type Decision =
  | { readonly kind: 'redirect' | 'expired'; readonly destination: Destination }
  | { readonly kind: 'preview'; readonly html: string }
  | { readonly kind: 'not_found' }
  | { readonly kind: 'gone' };

const notFound: Decision = { kind: 'not_found' };
const gone: Decision = { kind: 'gone' };

export class LinkPlan {
  readonly app: AppSnapshot;
  readonly link: LinkSnapshot;
  readonly #utm: UtmFields;
  readonly #onIos: Decision;
  readonly #onAndroid: Decision;
  readonly #onOther: Decision;
  readonly #onExpiry: Decision;
  readonly #expiresMs: number;
  readonly #preview: Decision | null;

  constructor(app: AppSnapshot, link: LinkSnapshot) {
    this.app = app;
    this.link = link;
    this.#utm = utmOf(link);
    this.#onIos = redirectTo(destinationOf(link, app, 'ios'), notFound);
    this.#onAndroid = redirectTo(destinationOf(link, app, 'android'), notFound);
    this.#onOther = redirectTo(destinationOf(link, app, 'other'), notFound);
    this.#onExpiry = redirectTo(expiredDestinationOf(link), gone, 'expired');
    this.#expiresMs = link.expires_at ?? Number.POSITIVE_INFINITY;
    this.#preview = hasPreview(link) ? { kind: 'preview', html: previewPage(link, app) } : null;
  }

  decide(device: Device, nowMs: number): Decision {
    if (this.link.archived) return notFound;
    if (nowMs >= this.#expiresMs) return this.#onExpiry;
    if (device.isPreviewCrawler && this.#preview !== null) return this.#preview;
    switch (device.platform) {
      case 'ios':
        return this.#onIos;
      case 'android':
        return this.#onAndroid;
      case 'other':
        return this.#onOther;
    }
  }

  click(clickId: string, visitor: Visitor, isPreview: boolean, nowMs: number): Click {
    const { link, app } = this;
    const utm = effectiveUtm(this.#utm, visitor.query);
    return {
      click_id: clickId,
      organization_id: app.organization_id,
      app_id: app.id,
      link_id: link.id,
      time: nowMs,
      ip: visitor.ip,
      privacy_mode: app.privacy_mode,
      user_agent: visitor.user_agent,
      language: visitor.language,
      referrer: visitor.referrer,
      query: visitor.query,
      campaign: link.campaign ?? '',
      utm_source: utm.utm_source,
      utm_medium: utm.utm_medium,
      utm_campaign: utm.utm_campaign,
      utm_term: utm.utm_term,
      utm_content: utm.utm_content,
      trigger: 'link',
      is_prefetch: visitor.is_prefetch,
      is_preview: isPreview,
    };
  }
}

function redirectTo(
  destination: Destination | null,
  otherwise: Decision,
  kind: 'redirect' | 'expired' = 'redirect',
): Decision {
  return destination === null ? otherwise : { kind, destination };
}

const noUtm: UtmFields = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };

/** Where the bare host leads. */
export function rootDestinationOf(app: AppSnapshot): Destination | null {
  return webDestination(app.fallback_url, noUtm);
}

/** Plans by snapshot: a new snapshot of the link or of its app is a new plan. */
export class LinkPlans {
  readonly #known = new WeakMap<LinkSnapshot, LinkPlan>();

  of(app: AppSnapshot, link: LinkSnapshot): LinkPlan {
    const known = this.#known.get(link);
    if (known !== undefined && known.app === app) return known;
    const plan = new LinkPlan(app, link);
    this.#known.set(link, plan);
    return plan;
  }
}
