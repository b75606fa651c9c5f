/** A minimal link and app, for tests to extend. */
import { utmFrom } from '#common/campaign-fields.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';

export const testApp: LinkedApp = {
  id: 'app_1',
  organization_id: 'org_1',
  host: 'myapp.localhost',
  ios: null,
  android: null,
  fallback_url: null,
  privacy_mode: 'anonymize_ip',
  tap_page: 'off',
  query_merge: 'destination',
  probabilistic_window_hours: 6,
  codes_ignore_case: false,
  firebase_links: null,
  migrates: false,
  pages: { not_found: null, expired: null },
};

export const testLink: LinkSnapshot = {
  id: 'lnk_1',
  app_id: 'app_1',
  short_code: 'summer',
  campaign: null,
  archived: false,
  title: null,
  ios_url: null,
  android_url: null,
  fallback_url: null,
  ...utmFrom(() => null),
  og_title: null,
  og_description: null,
  og_image_url: null,
  expires_at: null,
  expired_url: null,
  tap_page: null,
  rules: null,
  password_hash: null,
  max_clicks: null,
};
