/** Finds related records: a click, its match, the install, and the events after it. */
import type { LiveRecord } from './live.ts';

/** Fields whose values link records to each other. */
const names = ['click_id', 'match_id', 'install_id', 'device_id'] as const;

const namesOf = ({ fields }: LiveRecord): string[] =>
  names.flatMap((name) => {
    const value = fields[name];
    return typeof value === 'string' && value !== '' ? [`${name} ${value}`] : [];
  });

/** All records connected with this one by an id, directly or through others, oldest first. */
export function storyOf(start: LiveRecord, records: readonly LiveRecord[]): LiveRecord[] {
  const known = new Set(namesOf(start));
  const story = new Set([start]);
  for (let before = 0; before < story.size; ) {
    before = story.size;
    for (const record of records) {
      const own = namesOf(record);
      if (story.has(record) || !own.some((name) => known.has(name))) continue;
      story.add(record);
      for (const name of own) known.add(name);
    }
  }
  return [...story].sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
}
