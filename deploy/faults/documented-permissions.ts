/** The permissions of each process as docs/operating.md prints them, so that a test runs with exactly these. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';
import type { SettingName } from '#common/process/settings.ts';

const page = readFileSync(join(packageRoot(), 'docs', 'operating.md'), 'utf8');

export interface DatabaseUser {
  /** The setting with its URL. */
  readonly setting: SettingName;
  readonly user: string;
}

/** The rows of the table with these words in its head, as cells. */
function tableWith(words: string): string[][] {
  const lines = page.split('\n');
  const head = lines.findIndex((line) => line.startsWith('|') && line.includes(words));
  if (head === -1) throw new Error(`docs/operating.md has no table with "${words}" in its head`);
  const rest = lines.slice(head + 2);
  const end = rest.findIndex((line) => !line.startsWith('|'));
  return rest.slice(0, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const quoted = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, inside = '']) => inside);

export function documentedDatabaseUsers(): ReadonlyMap<string, DatabaseUser> {
  const users = tableWith('| Process | Postgres |').flatMap(([process = '', postgres = '']) => {
    const [setting, user] = quoted(postgres);
    return setting && user ? [[process, { setting: setting as SettingName, user }] as const] : [];
  });
  return new Map(users);
}

/** The statements that create the users, with a password instead of the page's dots. */
export function documentedDatabaseStatements(password: string): string[] {
  const [, block = ''] = /psql "\$ADMINISTRATOR_URL" <<'SQL'\n([\s\S]*?)\nSQL/.exec(page) ?? [];
  return block
    .replaceAll('…', password)
    .split(';')
    .map((text) => text.trim())
    .filter(Boolean);
}

/** The lines of Redis' configuration for the page's users. */
export function documentedRedisUsers(password: string): string[] {
  const [, block = ''] = /The Redis ACLs[\s\S]*?```text\n([\s\S]*?)```/.exec(page) ?? [];
  return block
    .trim()
    .split('\n')
    .map((line) => {
      const [, user = '', rules = ''] = /^(\w+): +(.*)$/.exec(line) ?? [];
      return `user ${user} on >${password} ${rules}`;
    });
}

/** `a.{B,C}.d` as `a.B.d` and `a.C.d`. */
function expanded(subject: string): string[] {
  const found = /^(.*)\{([^}]*)\}(.*)$/.exec(subject);
  if (found === null) return [subject];
  const [, before = '', choices = '', after = ''] = found;
  return choices.split(',').map((choice) => `${before}${choice}${after}`);
}

/** The users of nats-server's configuration. Their inboxes are as narrow as the page says that they can be. */
export function documentedNatsUsers(password: string): string[] {
  const users = tableWith('NATS: publish').map(([process = '', publish = '', subscribe = '']) => {
    const user = process.split(' ')[0] ?? '';
    const narrow = quoted(subscribe).map((subject) => (subject === '_INBOX.>' ? `_INBOX.${user}.>` : subject));
    const permissions = { publish: quoted(publish).flatMap(expanded), subscribe: narrow.flatMap(expanded) };
    return JSON.stringify({ user, password, permissions });
  });
  return ['authorization {', `  users: [ ${users.join(',\n    ')} ]`, '}'];
}
