/** The campaign fields of links, clicks, installs and events, in the order of records and columns. */
export const UTM_FIELDS = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const;
export type UtmField = (typeof UTM_FIELDS)[number];
/** Unknown values are empty. */
export type UtmTexts = Record<UtmField, string>;

export const CAMPAIGN_FIELDS = ['campaign', ...UTM_FIELDS] as const;
export type CampaignField = (typeof CAMPAIGN_FIELDS)[number];
export type CampaignTexts = Record<CampaignField, string>;

/** An object of the UTM fields. Code that runs for every record spells the fields out instead: spreads are slow in V8. */
export function utmFrom<T>(value: (name: UtmField) => T): Record<UtmField, T> {
  return {
    utm_source: value('utm_source'),
    utm_medium: value('utm_medium'),
    utm_campaign: value('utm_campaign'),
    utm_term: value('utm_term'),
    utm_content: value('utm_content'),
  };
}

export function campaignFrom<T>(value: (name: CampaignField) => T): Record<CampaignField, T> {
  return { campaign: value('campaign'), ...utmFrom(value) };
}
