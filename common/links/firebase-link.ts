/** Maps the fields of Firebase Dynamic Links to fields of links, both for exports and for long links. */

/** Unsupported fields, which the app gets in `data.firebase`. */
export const keptFirebaseFields = ['amv', 'imv', 'ius', 'ipfl', 'ipbi', 'at', 'ct', 'mt', 'pt'] as const;

/** Fields that must match the app's own value; a link of another app would open the wrong store. */
export const firebaseAppIds = [
  ['apn', 'package_name', 'android.package_name'],
  ['ibi', 'bundle_id', 'ios.bundle_id'],
  ['isi', 'app_store_id', 'ios.app_store_id'],
] as const;

type DecidingField = 'apn' | 'afl' | 'ibi' | 'ifl' | 'isi' | 'ofl' | 'efr';

/**
 * @param field its text, empty if absent. @param link the deep link.
 * Without an app of the platform, Firebase opened the deep link itself; with one and no fallback, its store.
 */
export function firebaseTargets(field: (name: DecidingField) => string, link: string) {
  const isForced = ['1', 'true', 'yes'].includes(field('efr').toLowerCase());
  return {
    ios_url: field('ibi') === '' && field('isi') === '' ? link : field('ifl'),
    android_url: field('apn') === '' ? link : field('afl'),
    fallback_url: field('ofl') || link,
    tap_page: isForced ? ('off' as const) : null,
  };
}
