/** The commands of `npm run admin`, each from its options to its one line of outcome. */
import { randomBytes } from 'node:crypto';
import { Command, Option } from 'commander';
import type { Role } from '#api/route.ts';
import { ApiKeys } from '#common/api-key.ts';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import {
  type AdminParts,
  addMember,
  createFirstUser,
  createOrganization,
  createUser,
  emailFault,
  listAccounts,
  nameFault,
  resetPassword,
} from './accounts.ts';
import { addHostCommands } from './host-commands.ts';
import { passwordRule } from './password-strength.ts';
import { AdminError, ask, askPassword, choose, done } from './questions.ts';
import { addRemovalCommands } from './removal-commands.ts';
import { addSecondFactorCommands } from './second-factor-commands.ts';
import { reencryptApiKeys, reencryptSecondFactors } from './secret-rotation.ts';

const roles: readonly Role[] = ['owner', 'member', 'viewer'];

/** What the commands run on. Opened only when one needs it, so that --help works without a database. */
export interface AdminContext {
  /** @throws AdminError when no database is set and none runs on this machine. */
  readonly parts: () => AdminParts;
  readonly adminEmail: string;
  readonly adminPassword: string;
  /** SECRET_KEY. */
  readonly secretKey: string;
  readonly print: (line: string) => void;
  readonly warn: (line: string) => void;
}

export function adminProgram(context: AdminContext): Command {
  const program = new Command('admin')
    .description('Users, organizations and keys of a Signpost installation.')
    .addHelpText('after', '\nDATABASE_URL says where; without it, the one that npm start runs on this machine.')
    .showHelpAfterError();
  addUserCommands(program, context);
  addOrganizationCommands(program, context);
  addRemovalCommands(program, context);
  addHostCommands(program, context);
  addSecondFactorCommands(program, context);
  addSecretCommands(program, context);
  return program;
}

const passwordSource =
  'The password is asked for, or read from ADMIN_PASSWORD or the first line of standard input; it is never an option.';

interface CreateUserOptions {
  readonly email?: string;
  readonly name?: string;
  readonly organization?: string;
  readonly role?: Role;
  readonly ifNone?: boolean;
}

function addUserCommands(program: Command, context: AdminContext): void {
  program
    .command('create-user')
    .description(`Make a user, and the organization if there is none of that name. ${passwordSource}`)
    .option('--email <address>', 'address to log in with (or ADMIN_EMAIL)')
    .option('--name <name>', 'name of the person')
    .option('--organization <name>', 'name of a new organization, or name or id of one that exists')
    .addOption(new Option('--role <role>', 'default: owner of a new one, member of one that exists').choices(roles))
    .option('--if-none', 'only if there is no user at all yet; a password that is not given is made up and printed')
    .action((options: CreateUserOptions) =>
      options.ifNone ? makeFirstUser(context, options) : makeUser(context, options),
    );

  program
    .command('reset-password')
    .description(`Give a user a new password, and end every login made before, at once. ${passwordSource}`)
    .option('--email <address>', 'whose')
    .action(async (options: { email?: string }) => {
      const email = await ask('--email', options.email, 'E-mail', emailFault);
      const rule = await passwordRule();
      const password = await askPassword(context.adminPassword, (text) => rule(text, [email]));
      done(await resetPassword(context.parts(), email, password));
      context.print(`${email} has a new password. Every login made before is over.`);
    });
}

async function makeUser(context: AdminContext, options: CreateUserOptions): Promise<void> {
  const email = await ask('--email', options.email ?? (context.adminEmail || undefined), 'E-mail', emailFault);
  const organization = await ask('--organization', options.organization, 'Organization', nameFault);
  const rule = await passwordRule();
  const hints = [email, options.name ?? '', organization];
  const password = await askPassword(context.adminPassword, (text) => rule(text, hints));
  const user = { email, name: options.name ?? '', password, organization, ...roleOf(options) };
  const created = done(await createUser(context.parts(), user));
  context.print(`${email} is ${created.role} of ${created.organization_id}, as ${created.user_id}`);
}

async function makeFirstUser(context: AdminContext, options: CreateUserOptions): Promise<void> {
  const email = options.email ?? (context.adminEmail || 'admin@example.com');
  const password = context.adminPassword || randomBytes(15).toString('base64url');
  const organization = options.organization ?? 'My organization';
  const user = { email, name: options.name ?? '', password, organization, ...roleOf(options) };
  const outcome = done(await createFirstUser(context.parts(), user));
  if (outcome.kind === 'exists') {
    context.print('There is a user already: nothing was changed.');
    return;
  }
  context.print(`login ${email}${context.adminPassword === '' ? ` password ${password}` : ''}`);
  if (outcome.weakness !== null) context.warn(`Warning: ADMIN_PASSWORD ${outcome.weakness}. Anyone else's is refused.`);
}

function roleOf({ role }: CreateUserOptions): { role?: Role } {
  return role === undefined ? {} : { role };
}

function addOrganizationCommands(program: Command, context: AdminContext): void {
  program
    .command('create-organization')
    .description('Make an organization without members. A name that another has is refused.')
    .option('--name <name>', 'its name')
    .action(async (options: { name?: string }) => {
      const name = await ask('--name', options.name, 'Name', nameFault);
      context.print(done(await createOrganization(context.parts(), name)).organization_id);
    });

  program
    .command('add-member')
    .description('Make a user a member of an organization, or give a member another role.')
    .option('--email <address>', 'whose')
    .option('--organization <name>', 'name or id')
    .addOption(new Option('--role <role>', 'what the member may do').choices(roles))
    .action(async (options: { email?: string; organization?: string; role?: string }) => {
      const email = await ask('--email', options.email, 'E-mail', emailFault);
      const organization = await ask('--organization', options.organization, 'Organization', nameFault);
      const role = await choose('--role', options.role, 'Role', roles);
      const added = done(await addMember(context.parts(), email, organization, role));
      context.print(`${email} is ${role} of ${added.organization_id}`);
    });

  program
    .command('list')
    .description('Every organization with its members.')
    .option('--json', 'as JSON')
    .action(async (options: { json?: boolean }) => {
      const organizations = await listAccounts(context.parts());
      if (options.json) {
        context.print(JSON.stringify(organizations, null, 2));
        return;
      }
      for (const { id, name, apps, members } of organizations) {
        context.print(id === '' ? 'without an organization' : `${id}  ${name}  (${apps} apps)`);
        for (const { email, role, disabled } of members) {
          context.print(`    ${role.padEnd(6)}  ${email}${disabled ? '  (disabled)' : ''}`);
        }
      }
    });
}

function addSecretCommands(program: Command, context: AdminContext): void {
  program
    .command('rotate-secret')
    .description(
      'Keep every API key under the newest key of SECRET_KEY; the keys themselves stay. First put a new key in front ' +
        '(--new prints the value), restart every process, then run this, then take the old key away.',
    )
    .option('--new', 'only print a SECRET_KEY with a new key in front; it is a secret')
    .action(async (options: { new?: boolean }) => {
      if (context.secretKey === '') throw new AdminError('SECRET_KEY is not set');
      const keys = parseSecretKeys(context.secretKey);
      if (options.new) {
        context.print(`${newSecretKey(`k${randomBytes(4).toString('hex')}`)},${context.secretKey}`);
        return;
      }
      const { db } = context.parts();
      const count = await reencryptApiKeys(db, new ApiKeys(keys));
      await reencryptSecondFactors(db, new Encryption(keys));
      context.print(`${count} API keys are now kept under ${keys[0]?.id}.`);
    });
}
