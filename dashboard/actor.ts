/** Who made a change, as the audit log names them. */
import type { Answer } from './api.ts';
import { t } from './texts/text.ts';

type Entry = Answer<'GET /audit-log'>['data'][number];

/** A key may have the name of a person, so it is called a key. */
export function actorOf({ actor_id, actor_kind, actor_name }: Entry): string {
  const name = actor_name || actor_id;
  return actor_kind === 'key' ? t('audit.key', { name }) : name;
}
