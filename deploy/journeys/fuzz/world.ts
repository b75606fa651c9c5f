/**
 * Everything a request can refer to: users of every role in two organizations, apps, links, valid and invalid keys.
 * Plans name them as `{{link:7}}`; slots are filled only when the request is sent, since requests create entities.
 */
import { login, type Stack } from '#deploy/journeys/stack.ts';

/** Settings that raise the rate limits. */
export const unlimited = Object.fromEntries(
  ['GENERAL', 'AUTH', 'LINKS', 'MATCH', 'EVENTS'].map((limitClass) => [`RATE_LIMIT_${limitClass}`, '1000000']),
);
/** Part of everything in the foreign organization: in an answer to anyone else it is a leak. */
export const foreignMark = 'nobody-else-may-read-this';
const KEPT_MAX = 500;

export const credentials = [
  'owner',
  'owner',
  'owner',
  'viewer',
  'foreign',
  'key',
  'key',
  'key_bearer',
  'old_key',
  'false_key',
  'false_token',
  'junk',
  'both',
  'none',
] as const;
export type Credential = (typeof credentials)[number];
export const slots = [
  'link',
  'app',
  'organization',
  'foreign_link',
  'foreign_app',
  'host',
  'code',
  'click',
  'refresh',
] as const;
type Slot = (typeof slots)[number];

export class World {
  readonly #tokens: Record<'owner' | 'viewer' | 'foreign', string>;
  readonly #pools: Record<Slot, string[]>;
  #key: string;
  #oldKey = '';
  readonly keyApp: string;

  constructor(
    tokens: Record<'owner' | 'viewer' | 'foreign', string>,
    pools: Record<Slot, string[]>,
    keyApp: { id: string; api_key: string },
  ) {
    this.#tokens = tokens;
    this.#pools = pools;
    this.#key = keyApp.api_key;
    this.keyApp = keyApp.id;
  }

  static async build(stack: Stack): Promise<World> {
    await stack.admin(
      'create-user',
      '--email',
      'viewer@example.com',
      '--organization',
      'My organization',
      '--role',
      'viewer',
    );
    await stack.admin('create-user', '--email', 'foreign@example.com', '--organization', foreignMark);
    return worldOf(stack);
  }

  /** @param text of a plan. @returns it with every slot filled. */
  fill(text: string): string {
    return text.replace(/\{\{(\w+):(\d+)\}\}/g, (whole, slot: string, at: string) => {
      const pool = slots.find((one) => one === slot);
      return pool ? this.#pick(pool, Number(at)) : whole;
    });
  }

  headers(credential: Credential): Record<string, string> {
    const bearer = (value: string) => ({ authorization: `Bearer ${value}` });
    switch (credential) {
      case 'owner':
      case 'viewer':
      case 'foreign':
        return bearer(this.#tokens[credential]);
      case 'key':
        return { 'x-api-key': this.#key };
      case 'key_bearer':
        return bearer(this.#key);
      case 'old_key':
        return { 'x-api-key': this.#oldKey };
      case 'false_key':
        return { 'x-api-key': `${this.#key.slice(0, -1)}${this.#key.endsWith('a') ? 'b' : 'a'}` };
      case 'false_token':
        return bearer(`${this.#tokens.owner.slice(0, -2)}${this.#tokens.owner.endsWith('AA') ? 'BB' : 'AA'}`);
      case 'junk':
        return { authorization: 'Basic \t ::::' };
      case 'both':
        return { ...bearer(this.#tokens.owner), 'x-api-key': this.#key };
      case 'none':
        return {};
    }
  }

  /** Remembers what an answer created in the own organization, so that later requests can use it. */
  learn(path: string, status: number, text: string): void {
    if (status !== 201 && status !== 200) return;
    const keep = (slot: Slot, value: unknown) => {
      if (typeof value === 'string' && this.#pools[slot].length < KEPT_MAX) this.#pools[slot].push(value);
    };
    if (!/^\/(links|sdk\/links|apps|auth\/\w+)$/.test(path) || !text.startsWith('{')) return;
    const made = JSON.parse(text) as Record<string, unknown>;
    if (path.startsWith('/auth')) keep('refresh', made['refresh_token']);
    else if (path === '/apps') keep('app', made['id']);
    else keep('link', made['id']);
    if (path === '/apps') keep('host', made['host']);
  }

  /** A new key for the app behind the credential `key`. The old one stays in use as `old_key`. */
  rotated(key: string): void {
    this.#oldKey = this.#key;
    this.#key = key;
  }

  #pick(slot: Slot, at: number): string {
    const pool = this.#pools[slot];
    return pool[at % pool.length] ?? '';
  }
}

async function worldOf(stack: Stack): Promise<World> {
  const tokens = {
    owner: await tokenOf(stack, login.email),
    viewer: await tokenOf(stack, 'viewer@example.com'),
    foreign: await tokenOf(stack, 'foreign@example.com'),
  };
  const make = async (token: string, path: string, body: object): Promise<Record<string, string>> => {
    const reply = await stack.api(path, { method: 'POST', body, headers: { authorization: `Bearer ${token}` } });
    if (reply.status >= 300) throw new Error(`${path} ${reply.status} ${reply.text}`);
    return reply.json();
  };
  const sure = (value: string | undefined) => value ?? '';
  const fallback_url = 'https://example.com/';
  const app = await make(tokens.owner, '/apps', {
    name: 'Fuzzed',
    fallback_url,
    allowed_destination_hosts: ['example.com'],
  });
  const spare = await make(tokens.owner, '/apps', { name: 'Spare', fallback_url });
  const foreignApp = await make(tokens.foreign, '/apps', { name: foreignMark });
  const foreignLink = await make(tokens.foreign, '/links', {
    path: `/${foreignMark}`,
    title: foreignMark,
    campaign: foreignMark,
  });
  const links = [];
  for (let at = 0; at < 5; at++)
    links.push(await make(tokens.owner, '/links', { app_id: app['id'], path: `/${at}`, campaign: 'c1', tags: ['t'] }));
  const rotated = await make(tokens.owner, `/apps/${app['id']}/rotate-key`, {});
  const me = await stack.api('/me', { headers: { authorization: `Bearer ${tokens.owner}` } });
  const [organization] = me.json<{ organizations: { id: string }[] }>().organizations;
  const world = new World(
    tokens,
    {
      link: links.map((link) => sure(link['id'])),
      app: [sure(app['id']), sure(spare['id'])],
      organization: [sure(organization?.id)],
      foreign_link: [sure(foreignLink['id'])],
      foreign_app: [sure(foreignApp['id'])],
      host: [sure(app['host']), sure(spare['host'])],
      code: links.map((link) => sure(link['short_code'])),
      click: ['clk_01kzg3v5k2e5v8m7n4p1q9r6s3'],
      refresh: ['Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA'],
    },
    { id: sure(app['id']), api_key: sure(app['api_key']) },
  );
  world.rotated(sure(rotated['api_key']));
  return world;
}

async function tokenOf(stack: Stack, email: string): Promise<string> {
  const reply = await stack.api('/auth/login', { method: 'POST', body: { email, password: login.password } });
  if (reply.status !== 200) throw new Error(`login of ${email}: ${reply.status} ${reply.text}`);
  return reply.json<{ access_token: string }>().access_token;
}
