/** `npm run admin`: commands on what a restored copy sends. */
import type { Command } from 'commander';
import type { AdminContext } from './admin-context.ts';
import { holdOutbound, type Resumed, resumeOutbound } from './outbound.ts';
import { done } from './questions.ts';

export function addOutboundCommands(program: Command, context: AdminContext): void {
  program
    .command('hold-outbound')
    .description(
      'Hold webhooks, postbacks and mail, imports from Branch and questions to old link services: for a copy that was not ' +
        'recognized as one. Run it before the processes of the copy start.',
    )
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      await holdOutbound(context.parts().db);
      context.print(
        options.json === true
          ? JSON.stringify({ kind: 'held' })
          : 'Webhooks, postbacks and mail are held until resume-outbound.',
      );
    });

  program
    .command('resume-outbound')
    .description(
      'Send webhooks, postbacks and mail again, which a restored copy holds. Run it once the original no longer sends them.',
    )
    .option('--discard', 'drop what is due for events from before the restore, because the original has sent it')
    .option('--json', 'print JSON')
    .action(async (options: { discard?: boolean; json?: boolean }) => {
      const resumed = done(await resumeOutbound(context.parts().db, options.discard === true));
      context.print(options.json === true ? JSON.stringify(resumed, null, 2) : sentence(resumed));
    });
}

function sentence({ held_since, webhooks, postbacks, mails, expired_mails, are_discarded }: Resumed): string {
  const counts = `${webhooks} webhooks, ${postbacks} postbacks and ${mails} mails`;
  const expired = expired_mails > 0 ? ` The links of ${expired_mails} more mails have expired: they are not sent.` : '';
  return are_discarded
    ? `${counts} from before the restore are dropped. What was created since ${held_since} is sent now.${expired}`
    : `${counts} that waited since ${held_since} or longer are sent now.${expired}`;
}
