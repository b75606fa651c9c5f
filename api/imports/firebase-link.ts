/**
 * A Firebase Dynamic Link in the fields of a link here. What an app would have got when it opened, and nothing here does, is in
 * `data.firebase`.
 */
import { urlFault } from '#common/links/web-address.ts';
import { type CellOf, fault, type ImportApp, type RowFault } from './import-row.ts';

const kept = ['amv', 'imv', 'ius', 'ipfl', 'ipbi', 'at', 'ct', 'mt', 'pt'] as const;

/** `app_id` of the row → the app's own; a link of another app would open the wrong store. */
const appIds = [
  ['apn', 'package_name', 'android.package_name'],
  ['ibi', 'bundle_id', 'ios.bundle_id'],
  ['isi', 'app_store_id', 'ios.app_store_id'],
] as const;

export function firebaseLink(cell: CellOf, app: ImportApp): Record<string, unknown> | RowFault {
  for (const [field, name, setting] of appIds) {
    const message = `is not the app’s ${setting}, which is ${app[name] ?? 'not set'}`;
    if (cell(field) !== '' && cell(field) !== app[name]) return fault(field, 'other_app', message);
  }
  const link = cell('link');
  if (link === '') return fault('link', 'no_destination', 'is empty');
  const problem = urlFault(link);
  if (problem !== null) return fault('link', 'invalid', problem);
  const { pathname, search } = new URL(link);
  const firebase = Object.fromEntries(kept.flatMap((name) => (cell(name) === '' ? [] : [[name, cell(name)]])));
  const isForced = ['1', 'true', 'yes'].includes(cell('efr').toLowerCase());
  return {
    path: pathname + search,
    // Without an app of the platform, the deep link itself was opened; with one and no fallback, its store.
    ios_url: cell('ibi') === '' && cell('isi') === '' ? link : cell('ifl'),
    android_url: cell('apn') === '' ? link : cell('afl'),
    fallback_url: cell('ofl') || link,
    tap_page: isForced ? 'off' : null,
    data: Object.keys(firebase).length > 0 ? { firebase } : null,
  };
}
