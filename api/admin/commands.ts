/** The commands of `npm run admin`: options, questions, and one line of output each. */
import { randomBytes } from 'node:crypto';
import { Command, Option } from 'commander';
import { passwordRule } from '#api/password-strength.ts';
import type { Role } from '#api/route.ts';
import { ApiKeys } from '#common/api-key.ts';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { sealedSecretCheck } from '#common/installation-state.ts';
import {
  addMember,
  createFirstUser,
  createOrganization,
  createUser,
  emailFault,
  listAccounts,
  nameFault,
  newEmailFault,
  newNameFault,
  resetPassword,
} from './accounts.ts';
import type { AdminContext } from './admin-context.ts';
import { addExplainCommand } from './explain.ts';
import { addHostCommands } from './host-commands.ts';
import { addImportCommand } from './import-command.ts';
import { addMachineCommands } from './machine-commands.ts';
import { addOutboundCommands } from './outbound-commands.ts';
import { AdminError, ask, askPassword, choose, done } from './questions.ts';
import { addRateCommands } from './rate-commands.ts';
import { addRemovalCommands } from './removal-commands.ts';
import { addSalvageCommand } from './salvage.ts';
import { addSecondFactorCommands } from './second-factor-commands.ts';
import {
  reencryptApiKeys,
  reencryptImportKeys,
  reencryptMail,
  reencryptSecondFactors,
  reencryptWebhookSecrets,
} from './secret-rotation.ts';

const roles: readonly Role[] = ['owner', 'member', 'viewer'];

export function adminProgram(context: AdminContext): Command {
  const program = new Command('admin')
    .description('Manage the users, organizations and keys of a Signpost installation.')
    .addHelpText(
      'after',
      '\nThe commands use the database in DATABASE_URL. Default: the one that npm start runs on this machine.',
    )
    .showHelpAfterError();
  addUserCommands(program, context);
  addOrganizationCommands(program, context);
  addRemovalCommands(program, context);
  addHostCommands(program, context);
  addExplainCommand(program, context);
  addImportCommand(program, context);
  addSecondFactorCommands(program, context);
  addMachineCommands(program, context);
  addSalvageCommand(program, context);
  addOutboundCommands(program, context);
  addRateCommands(program, context);
  addSecretCommands(program, context);
  return program;
}

const passwordSource =
  'The password is read from a prompt, or from the first line of standard input; it is never a command-line option.';

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
    .description(`Create a user, and the organization if it does not exist. ${passwordSource}`)
    .option('--email <address>', 'e-mail address to log in with (default: ADMIN_EMAIL)')
    .option('--name <name>', 'full name of the user')
    .option('--organization <name>', 'name of a new organization, or name or id of an existing one')
    .addOption(
      new Option('--role <role>', 'default: owner in a new organization, member in an existing one').choices(roles),
    )
    .option('--if-none', 'do nothing if any user exists; the password is ADMIN_PASSWORD, or generated and printed')
    .action((options: CreateUserOptions) =>
      options.ifNone ? makeFirstUser(context, options) : makeUser(context, options),
    );

  program
    .command('reset-password')
    .description(`Set a new password for a user and end all their sessions immediately. ${passwordSource}`)
    .option('--email <address>', 'e-mail address of the user')
    .action(async (options: { email?: string }) => {
      const email = await ask('--email', options.email, 'E-mail', emailFault);
      const rule = await passwordRule();
      const password = await askPassword((text) => rule(text, [email]));
      done(await resetPassword(context.parts(), email, password));
      context.print(`${email} has a new password. All earlier sessions have ended.`);
    });
}

async function makeUser(context: AdminContext, options: CreateUserOptions): Promise<void> {
  const email = await ask('--email', options.email ?? (context.adminEmail || undefined), 'E-mail', newEmailFault);
  const organization = await ask('--organization', options.organization, 'Organization', nameFault);
  const rule = await passwordRule();
  const hints = [email, options.name ?? '', organization];
  const password = await askPassword((text) => rule(text, hints));
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
    context.print('A user already exists; nothing was changed.');
    return;
  }
  context.print(`login ${email}${context.adminPassword === '' ? ` password ${password}` : ''}`);
  if (outcome.weakness !== null)
    context.warn(`Warning: ADMIN_PASSWORD ${outcome.weakness}. Such a password is accepted only for the first user.`);
}

function roleOf({ role }: CreateUserOptions): { role?: Role } {
  return role === undefined ? {} : { role };
}

function addOrganizationCommands(program: Command, context: AdminContext): void {
  program
    .command('create-organization')
    .description('Create an organization without members. The name must not exist yet.')
    .option('--name <name>', 'name of the organization')
    .action(async (options: { name?: string }) => {
      const name = await ask('--name', options.name, 'Name', newNameFault);
      context.print(done(await createOrganization(context.parts(), name)).organization_id);
    });

  program
    .command('add-member')
    .description('Add a user to an organization, or change a member’s role.')
    .option('--email <address>', 'e-mail address of the user')
    .option('--organization <name>', 'name or id')
    .addOption(new Option('--role <role>', 'role of the member').choices(roles))
    .action(async (options: { email?: string; organization?: string; role?: string }) => {
      const email = await ask('--email', options.email, 'E-mail', emailFault);
      const organization = await ask('--organization', options.organization, 'Organization', nameFault);
      const role = await choose('--role', options.role, 'Role', roles);
      const added = done(await addMember(context.parts(), email, organization, role));
      context.print(`${email} is ${role} of ${added.organization_id}`);
    });

  program
    .command('list')
    .description('List all organizations and their members.')
    .option('--json', 'print JSON')
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
      'Re-encrypt every API key with the newest key of SECRET_KEY; the API keys do not change. First add a new key at the front ' +
        '(--new prints the value) and restart every process. Then run this command, and remove the old key afterwards.',
    )
    .option('--new', 'only print the SECRET_KEY with a new key in front; keep the output secret')
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
      await reencryptWebhookSecrets(db, new Encryption(keys));
      await reencryptMail(db, new Encryption(keys));
      await reencryptImportKeys(db, new Encryption(keys));
      // Last: from now on, a process without the newest key refuses to work, and one without the others does not.
      await db.execute('UPDATE installation SET secret_check = $1', [sealedSecretCheck(new Encryption(keys))]);
      context.print(`${count} API keys are now encrypted with key ${keys[0]?.id}.`);
    });
}
