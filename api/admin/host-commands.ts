/** `npm run admin` for the hosts of short links. */
import type { Command } from 'commander';
import type { AdminContext } from './commands.ts';
import { hostNameFault, releaseHost, verifyHost } from './hosts.ts';
import { ask, done } from './questions.ts';
import { untilTold } from './told-changes.ts';

interface HostOptions {
  readonly host?: string;
  readonly app?: string;
}

export function addHostCommands(program: Command, context: AdminContext): void {
  const hostOf = (options: HostOptions) => ask('--host', options.host, 'Host', hostNameFault);

  program
    .command('verify-host')
    .description('Serve a host for the app that claims it, without a proof in DNS.')
    .option('--host <host>', 'such as go.example.com')
    .option('--app <id>', 'which app, if several claim it')
    .action(async (options: HostOptions) => {
      const host = await hostOf(options);
      const parts = context.parts();
      const { app_id } = done(await verifyHost(parts, host, options.app));
      await untilTold(parts.db);
      context.print(`${host} is served for ${app_id}`);
    });

  program
    .command('release-host')
    .description('Free a host from whoever had it. An app that is served under it has to prove it again.')
    .option('--host <host>', 'such as go.example.com')
    .action(async (options: HostOptions) => {
      const host = await hostOf(options);
      const parts = context.parts();
      const { app_ids } = done(await releaseHost(parts, host));
      await untilTold(parts.db);
      const shown = app_ids.length === 0 ? '' : `; no longer served for ${app_ids.join(', ')}`;
      context.print(`${host} is free${shown}`);
    });
}
