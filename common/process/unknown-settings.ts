/**
 * Finds environment variables that look like misspelled settings, because a typo would otherwise silently leave the
 * default in effect.
 */
import { settings } from './settings.ts';

/** Prefixes that only Signpost's settings have. */
const prefixes = ['SIGNPOST_', 'RATE_LIMIT_', 'REDIRECTOR_', 'JOURNAL_', 'INGEST_', 'LINK_CACHE_', 'OAUTH_GOOGLE_'];
/** Maximum typos within a name; shorter names are never compared, because too many others are close to them. */
const editsMax = 2;
const comparedCharsMin = 7;

/** One sentence for each variable that looks like a misspelled setting. */
export function unknownSettings(env: NodeJS.ProcessEnv): string[] {
  const names = Object.keys(settings);
  return Object.keys(env).flatMap((given) => {
    if (names.includes(given)) return [];
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
