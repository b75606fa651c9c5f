/** `npm run admin`: commands for short-link hosts. */
import type { Command } from 'commander';
import type { AdminContext } from './admin-context.ts';
import { hostNameFault, releaseHost, verifyHost } from './hosts.ts';
import { untilDelivered } from './outbox-wait.ts';
import { ask, done } from './questions.ts';

interface HostOptions {
  readonly host?: string;
  readonly app?: string;
}

export function addHostCommands(program: Command, context: AdminContext): void {
  const hostOf = (options: HostOptions) => ask('--host', options.host, 'Host', hostNameFault);

  program
    .command('verify-host')
    .description('Verify a host for the app that claims it, without a DNS record.')
    .option('--host <host>', 'host name, such as go.example.com')
    .option('--app <id>', 'id of the app; required if several apps claim the host')
    .action(async (options: HostOptions) => {
      const host = await hostOf(options);
      const parts = context.parts();
      const { app_id } = done(await verifyHost(parts, host, options.app));
      await untilDelivered(parts.db);
      context.print(`${host} is served for ${app_id}`);
    });

  program
    .command('release-host')
    .description('Release a host from its current owner. An app that uses it must verify it again.')
    .option('--host <host>', 'host name, such as go.example.com')
    .action(async (options: HostOptions) => {
      const host = await hostOf(options);
      const parts = context.parts();
      const { app_ids } = done(await releaseHost(parts, host));
      await untilDelivered(parts.db);
      const shown = app_ids.length === 0 ? '' : `; no longer served for ${app_ids.join(', ')}`;
      context.print(`${host} is free${shown}`);
    });
}
