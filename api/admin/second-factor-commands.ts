/** `npm run admin`: commands for second factors. */
import type { Command } from 'commander';
import { emailFault, nameFault } from './accounts.ts';
import type { AdminContext } from './admin-context.ts';
import { ask, done } from './questions.ts';
import { requireTotp, resetTotp } from './second-factor.ts';

export function addSecondFactorCommands(program: Command, context: AdminContext): void {
  program
    .command('require-totp')
    .description(
      'Require a second factor for all members of an organization. Members without one have no access until they set one up.',
    )
    .option('--organization <name>', 'name or id')
    .option('--off', 'stop requiring a second factor')
    .action(async (options: { organization?: string; off?: boolean }) => {
      const organization = await ask('--organization', options.organization, 'Organization', nameFault);
      const set = done(await requireTotp(context.parts(), organization, options.off !== true));
      const shown = options.off ? 'does not require a second factor' : 'requires a second factor';
      context.print(`${set.organization_id} ${shown}; ${set.members_without} of its members have not set one up`);
    });

  program
    .command('reset-totp')
    .description(
      'Remove the second factor of a user who has lost it. They log in without a code until they set up a new one.',
    )
    .option('--email <address>', 'e-mail address of the user')
    .action(async (options: { email?: string }) => {
      const email = await ask('--email', options.email, 'E-mail', emailFault);
      done(await resetTotp(context.parts(), email));
      context.print(`${email} now logs in without a second factor`);
    });
}
