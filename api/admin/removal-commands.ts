/** `npm run admin`: commands that remove users and organizations. */
import type { Command } from 'commander';
import { emailFault, nameFault } from './accounts.ts';
import type { AdminContext } from './admin-context.ts';
import { untilDelivered } from './outbox-wait.ts';
import { ask, done } from './questions.ts';
import { deleteOrganization, deleteUser, disableUser, enableUser, removeMember } from './removals.ts';

interface Named {
  readonly email?: string;
  readonly organization?: string;
}

const atOnce = 'Takes effect with the next request.';

export function addRemovalCommands(program: Command, context: AdminContext): void {
  const emailOf = (options: Named) => ask('--email', options.email, 'E-mail', emailFault);
  const organizationOf = (options: Named) => ask('--organization', options.organization, 'Organization', nameFault);

  program
    .command('remove-member')
    .description(`Remove a user from an organization. The last owner cannot be removed. ${atOnce}`)
    .option('--email <address>', 'e-mail address of the user')
    .option('--organization <name>', 'name or id')
    .action(async (options: Named) => {
      const [email, organization] = [await emailOf(options), await organizationOf(options)];
      const removed = done(await removeMember(context.parts(), email, organization));
      context.print(`${email} is no longer a member of ${removed.organization_id}`);
    });

  program
    .command('disable-user')
    .description(`Block all access of a user until enable-user. ${atOnce}`)
    .option('--email <address>', 'e-mail address of the user')
    .action(async (options: Named) => {
      const email = await emailOf(options);
      const { ownerless } = done(await disableUser(context.parts(), email));
      context.print(`${email} is disabled`);
      for (const { id, name } of ownerless) context.print(`${name} (${id}) now has no owner who can log in`);
    });

  program
    .command('enable-user')
    .description('Let a disabled user log in again.')
    .option('--email <address>', 'e-mail address of the user')
    .action(async (options: Named) => {
      const email = await emailOf(options);
      done(await enableUser(context.parts(), email));
      context.print(`${email} may log in again`);
    });

  program
    .command('delete-user')
    .description(`Delete an account. The last owner of an organization cannot be deleted. ${atOnce}`)
    .option('--email <address>', 'e-mail address of the user')
    .action(async (options: Named) => {
      const email = await emailOf(options);
      done(await deleteUser(context.parts(), email));
      context.print(`${email} is deleted`);
    });

  program
    .command('delete-organization')
    .description(
      `Delete an organization: its links answer 404, its API keys get 401, and its members lose access. ${atOnce}`,
    )
    .option('--organization <name>', 'name or id')
    .action(async (options: Named) => {
      const organization = await organizationOf(options);
      const parts = context.parts();
      const deleted = done(await deleteOrganization(parts, organization));
      context.print(`${deleted.organization_id} is deleted, with ${deleted.apps} apps`);
      if (!(await untilDelivered(parts.db)))
        context.print('The API is not running. Caches are updated once it runs again.');
    });
}
