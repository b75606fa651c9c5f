/**
 * Finds environment variables that look like misspelled settings, because a typo would otherwise silently leave the
 * default in effect.
 */
import { secretFileNames } from './secret-files.ts';
import { settings } from './settings.ts';

/** Prefixes that only Signpost's settings have. */
const prefixes = ['SIGNPOST_', 'RATE_LIMIT_', 'REDIRECTOR_', 'JOURNAL_', 'INGEST_', 'LINK_CACHE_', 'OAUTH_GOOGLE_'];
/** Maximum typos within a name; shorter names are never compared, because too many others are close to them. */
const editsMax = 2;
const comparedCharsMin = 7;

/**
 * What other programs add: systemd to its services, and Kubernetes and Docker (links) for each service, whatever its
 * name is: NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_PORT=tcp://…, NAME_PORT_80_TCP_ADDR, NAME_NAME=/….
 */
const ofSystemd: ReadonlySet<string> = new Set(['JOURNAL_STREAM']);
const ofServices = /_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?|ENV_\w+)$/;

/** Whether a value is the address of a service, as Kubernetes and Docker set it in NAME_PORT. */
export function isServiceLink(value: string | undefined): boolean {
  return /^(tcp|udp|sctp):\/\//.test(value ?? '');
}

function isOfOthers(name: string, value: string | undefined): boolean {
  if (ofSystemd.has(name) || ofServices.test(name)) return true;
  return (
    (name.endsWith('_PORT') && isServiceLink(value)) || (name.endsWith('_NAME') && value?.startsWith('/') === true)
  );
}

/** One sentence for each variable that looks like a misspelled setting. */
export function unknownSettings(env: NodeJS.ProcessEnv): string[] {
  const names = [...Object.keys(settings), ...secretFileNames];
  return Object.entries(env).flatMap(([given, value]) => {
    if (names.includes(given) || isOfOthers(given, value)) return [];
    const [nearest, edits] = nearestOf(given, names);
    const isNear = edits <= editsMax && given.length >= comparedCharsMin;
    if (isNear) return [`${given} is not a setting and has no effect. Did you mean ${nearest}?`];
    const isOurs = prefixes.some((prefix) => given.startsWith(prefix));
    return isOurs ? [`${given} is not a setting and has no effect. docs/settings.md lists all settings.`] : [];
  });
}

function nearestOf(given: string, names: readonly string[]): readonly [string, number] {
  let nearest: readonly [string, number] = ['', Number.POSITIVE_INFINITY];
  for (const name of names) {
    if (Math.abs(name.length - given.length) > editsMax) continue;
    const edits = editsBetween(given, name);
    if (edits < nearest[1]) nearest = [name, edits];
  }
  return nearest;
}

/** Levenshtein distance: insertions, deletions and replacements of single characters. */
function editsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, n) => n);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
