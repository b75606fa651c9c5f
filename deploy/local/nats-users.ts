/**
 * Permissions in the log. An edge can publish records but not read them; ingest and the API's live feed can read them but
 * not write any.
 * Inboxes begin with the user's name, so that no user can read another's replies.
 */
import { join } from 'node:path';
import type { LogNames } from '#common/log/log-names.ts';
import { inboxPrefixOf } from '#common/stores/nats.ts';
import { storedPassword } from './stored-password.ts';

export type NatsRole = 'publisher' | 'ingest' | 'gateway' | 'api' | 'operator' | 'system';

interface Permissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

const inboxOf = (role: NatsRole) => `${inboxPrefixOf(role)}.>`;
const limitedRoles = ['publisher', 'ingest', 'gateway', 'api'] as const;
type LimitedRole = (typeof limitedRoles)[number];

/** The subjects that each process may use. */
export function natsPermissions(names: LogNames): Readonly<Record<LimitedRole, Permissions>> {
  const streamApi = [names.api('STREAM.INFO'), names.api('STREAM.CREATE')];
  return {
    publisher: {
      publish: [names.records, ...streamApi, names.marksRequest, names.progress],
      subscribe: [inboxOf('publisher'), names.marks],
    },
    ingest: {
      publish: [
        ...streamApi,
        // Allows purging committed records and resizing the log; no other user may.
        ...[names.api('STREAM.UPDATE'), names.api('STREAM.PURGE')],
        ...['CREATE', 'DELETE', 'MSG.NEXT'].map((verb) => names.api(`CONSUMER.${verb}`, '>')),
        names.marks,
        inboxOf('gateway'),
        inboxOf('publisher'),
      ],
      subscribe: [inboxOf('ingest'), names.marksRequest, names.progress, names.archive],
    },
    gateway: { publish: [names.archive], subscribe: [inboxOf('gateway')] },
    // For the live feed, and for the fill level of the log.
    api: {
      publish: [names.api('STREAM.INFO'), ...['CREATE', 'MSG.NEXT'].map((verb) => names.api(`CONSUMER.${verb}`, '>'))],
      subscribe: [inboxOf('api')],
    },
  };
}

export type NatsPasswords = Readonly<Record<NatsRole, string>>;

/** The passwords stored in the server's folder. */
export function natsPasswords(dataDir: string): NatsPasswords {
  const of = (role: NatsRole) => storedPassword(join(dataDir, `password-${role}`));
  return {
    publisher: of('publisher'),
    ingest: of('ingest'),
    gateway: of('gateway'),
    api: of('api'),
    operator: of('operator'),
    system: of('system'),
  };
}

/** The users in nats-server's configuration. `operator` has all permissions, for a person with the `nats` command. */
export function natsUsers(passwords: NatsPasswords, names: LogNames): string[] {
  const permissionsOf = natsPermissions(names);
  const limited = limitedRoles.map((role) => {
    const { publish, subscribe } = permissionsOf[role];
    const permissions = `{ publish: ${JSON.stringify(publish)}, subscribe: ${JSON.stringify(subscribe)} }`;
    return `    { user: ${role}, password: ${JSON.stringify(passwords[role])}, permissions: ${permissions} }`;
  });
  return [
    'authorization {',
    '  users: [',
    ...limited,
    `    { user: operator, password: ${JSON.stringify(passwords.operator)} }`,
    '  ]',
    '}',
    // A separate system account besides the global one, which contains the logs of earlier versions.
    `accounts { SYS: { users: [ { user: system, password: ${JSON.stringify(passwords.system)} } ] } }`,
    'system_account: SYS',
  ];
}
