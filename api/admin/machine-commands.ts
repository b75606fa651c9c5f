/** `npm run admin`: commands on the machines of an installation. */
import type { Command } from 'commander';
import type { AdminContext } from './admin-context.ts';
import { catchUpDeletion, reportingMachines, retireMachine } from './machines.ts';
import { done } from './questions.ts';

export function addMachineCommands(program: Command, context: AdminContext): void {
  program
    .command('machines')
    .description('List the machines that report which of their records are stored; first the one that as_of waits for.')
    .action(async () => {
      const machines = await reportingMachines(context.parts().db);
      if (machines.length === 0) context.print('No machine has reported yet.');
      for (const { machine, committed_to, silent_seconds } of machines) {
        const until = new Date(committed_to).toISOString();
        context.print(`${machine}  stored up to ${until}  last report ${silent_seconds} seconds ago`);
      }
    });

  program
    .command('retire-machine')
    .description(
      'Remove a machine that no longer exists, so that as_of stops waiting for it. All its records must be stored first.',
    )
    .argument('<name>', 'MACHINE_NAME of the machine, or the name in journal/machine in its DATA_DIR')
    .option('--give-up', 'remove it even if some of its records are not stored; they are lost')
    .action(async (name: string, options: { giveUp?: boolean }) => {
      const retired = done(await retireMachine(context.parts().db, name, options.giveUp === true));
      const lost =
        retired.given_up_seconds > 0 ? ` Records of its last ${retired.given_up_seconds} seconds are lost.` : '';
      const held =
        retired.held_clicks > 0
          ? ` Its redirectors held ${retired.held_clicks} clicks of links with max_clicks, which count as used.`
          : '';
      context.print(`${name} is retired.${lost}${held}`);
    });

  program
    .command('catch-up-deletion')
    .description(
      "Delete old rows by the clock of Postgres again, at once instead of two days' worth per day. First make sure that this clock is right.",
    )
    .action(async () => {
      const { now, reached } = await catchUpDeletion(context.parts().db);
      context.print(`Old rows are deleted by ${now.toISOString()} instead of ${reached.toISOString()}.`);
    });
}
