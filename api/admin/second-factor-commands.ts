/** `npm run admin` for second factors. */
import type { Command } from 'commander';
import { emailFault, nameFault } from './accounts.ts';
import type { AdminContext } from './commands.ts';
import { ask, done } from './questions.ts';
import { requireTotp, resetTotp } from './second-factor.ts';

export function addSecondFactorCommands(program: Command, context: AdminContext): void {
  program
    .command('require-totp')
    .description('Shut members without a second factor out of an organization, until they set one up.')
    .option('--organization <name>', 'name or id')
    .option('--off', 'require none any more')
    .action(async (options: { organization?: string; off?: boolean }) => {
      const organization = await ask('--organization', options.organization, 'Organization', nameFault);
      const set = done(await requireTotp(context.parts(), organization, options.off !== true));
      const shown = options.off ? 'requires no second factor' : 'requires a second factor';
      context.print(`${set.organization_id} ${shown}; ${set.members_without} of its members have none`);
    });

  program
    .command('reset-totp')
    .description(
      'Take the second factor from a user who has lost it; they log in without a code until they set one up.',
    )
    .option('--email <address>', 'whose')
    .action(async (options: { email?: string }) => {
      const email = await ask('--email', options.email, 'E-mail', emailFault);
      done(await resetTotp(context.parts(), email));
      context.print(`${email} logs in without a second factor now`);
    });
}
