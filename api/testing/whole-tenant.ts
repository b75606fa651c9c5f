/** A tenant that has one of everything, whose texts all contain a word of its own. */
import { newId } from '#common/ids.ts';
import type { Ids } from './described-operations.ts';
import type { ApiForTest, Member } from './running-api.ts';

export interface WholeTenant {
  readonly owner: Member;
  readonly ids: Ids;
  /** An app besides `ids.app`. */
  readonly otherApp: string;
  /** The key of `ids.app`. */
  readonly apiKey: string;
}

/** @param word is in the names, titles and addresses of what belongs to the tenant, but not to its other app. */
export async function wholeTenant(api: ApiForTest, word: string): Promise<WholeTenant> {
  const owner = await api.member();
  const organization = owner.organization_id;
  const make = async (path: string, body: object) => {
    const reply = await owner.call('POST', path, body);
    if (reply.status >= 300) throw new Error(`${path}: ${reply.status} ${JSON.stringify(reply.body)}`);
    return reply.body as { id: string; api_key?: string };
  };
  await api.db.execute('UPDATE organizations SET name = $2 WHERE id = $1', [organization, word]);
  const { user_id: user } = await api.member('member', organization);
  await api.db.execute('UPDATE users SET name = $2 WHERE id = $1', [user, word]);
  const { id: app, api_key = '' } = await make('/apps', { name: word });
  const otherApp = (await make('/apps', { name: 'Other' })).id;
  const url = `https://example.com/${word}`;
  const link = (await make('/links', { app_id: app, url, title: word, external_id: 'known', tags: [word] })).id;
  const hook = { url: `https://127.0.0.1/${word}`, app_ids: [app], description: word };
  const session = newId('usr', Date.now());
  await api.db.execute(
    `INSERT INTO browser_sessions (id, user_id, token_hash, created_at, expires_at)
     VALUES ($1, $2, $3, now(), now() + interval '1 day')`,
    [session, owner.user_id, Buffer.from(session)],
  );
  const ids = {
    ...{ organization, user, app, link, session },
    template: (await make('/utm-templates', { name: word, utm_source: word, app_id: app })).id,
    import: (await make('/imports', { app_id: app, source: 'csv', hosts: [`${word}.example.com`] })).id,
    key: (await make('/keys', { name: word, scopes: ['links:read'] })).id,
    webhook: (await make('/webhooks', { ...hook, events: ['link.created'] })).id,
    postback: (await make('/postbacks', { ...hook, events: ['install.attributed'] })).id,
    view: (await make('/views', { name: word, query: {} })).id,
    page: (await make('/shared-pages', { link_id: link, name: word })).id,
    invitation: (await make('/invitations', { email: `${word}@example.com`, role: 'viewer' })).id,
  };
  const cost = { campaign: word, day: new Date().toISOString().slice(0, 10), amount: '1', currency: 'EUR' };
  await make('/costs', { costs: [cost] });
  return { owner, ids, otherApp, apiKey: api_key };
}
