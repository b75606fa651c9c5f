/**
 * Maps a Firebase Dynamic Link to the fields of a link. Parameters that the app would have received and that have no
 * field here are stored in `data.firebase`.
 */
import { firebaseAppIds, firebaseTargets, keptFirebaseFields } from '#common/links/firebase-link.ts';
import { urlFault } from '#common/links/web-address.ts';
import { type CellOf, fault, type ImportApp, type RowFault } from './import-row.ts';

export function firebaseLink(cell: CellOf, app: ImportApp): Record<string, unknown> | RowFault {
  for (const [field, name, setting] of firebaseAppIds) {
    const message = `is not the app’s ${setting}, which is ${app[name] ?? 'not set'}`;
    if (cell(field) !== '' && cell(field) !== app[name]) return fault(field, 'other_app', message);
  }
  const link = cell('link');
  if (link === '') return fault('link', 'no_destination', 'is empty');
  const problem = urlFault(link);
  if (problem !== null) return fault('link', 'invalid', problem);
  const { pathname, search } = new URL(link);
  const firebase = Object.fromEntries(
    keptFirebaseFields.flatMap((name) => (cell(name) === '' ? [] : [[name, cell(name)]])),
  );
  return {
    path: pathname + search,
    ...firebaseTargets(cell, link),
    data: Object.keys(firebase).length > 0 ? { firebase } : null,
  };
}
