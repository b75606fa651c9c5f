/** The two files that tell phones which app opens the links of a host. */
import type { LinkedApp } from '#common/links/link-snapshot.ts';

/**
 * Apple, "Supporting associated domains": `components` for iOS 13 and later, `paths` and `appID` for older ones. Null
 * if the app has no iOS bundle or team.
 */
export function appleAssociation(app: LinkedApp): string | null {
  const { bundle_id, team_id } = app.ios ?? {};
  if (!bundle_id || !team_id) return null;
  const appId = `${team_id}.${bundle_id}`;
  // A Firebase long link is at the bare host, which is not the app's otherwise.
  const longLinks = app.firebase_links === null ? [] : [{ '/': '/', '?': { link: '?*' } }];
  const components = [...longLinks, { '/': '/', exclude: true }, { '/': '/*' }];
  return JSON.stringify({
    applinks: { apps: [], details: [{ appIDs: [appId], components, appID: appId, paths: ['NOT /', '*'] }] },
    webcredentials: { apps: [appId] },
  });
}

/** Google, "Digital Asset Links: statement lists". Null if the app has no package or no fingerprints. */
export function androidAssociation(app: LinkedApp): string | null {
  const { package_name, sha256_cert_fingerprints = [] } = app.android ?? {};
  if (!package_name || sha256_cert_fingerprints.length === 0) return null;
  return JSON.stringify([
    {
      relation: ['delegate_permission/common.handle_all_urls'],
      target: { namespace: 'android_app', package_name, sha256_cert_fingerprints },
    },
  ]);
}
