/** `npm run admin -- backup`, `try-restore` and `restore`: everything that npm start stores on this machine. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { AdminError } from '#api/admin/questions.ts';
import { systemClock } from '#common/clock.ts';
import type { ToolConfig } from '#common/process/config-roles.ts';
import { asAdminError } from '#deploy/local/as-admin-error.ts';
import { backUp } from './back-up.ts';
import { restore } from './restore.ts';
import { tryRestore } from './trial-restore.ts';

export function addBackupCommands(program: Command, config: ToolConfig<'admin'>): void {
  program
    .command('backup')
    .description(
      'Copy everything that npm start stores on this machine to a new folder, while it runs. Every record that was accepted before ' +
        'is in it. It contains all secrets: keep it where only you can read it.',
    )
    .argument('<folder>', 'a folder that does not exist yet')
    .action(async (folder: string) => {
      refuseExternalServers(config);
      const dataDir = resolve(config.DATA_DIR);
      const facts = await asAdminError(backUp({ dataDir, folder: resolve(folder), nowMs: systemClock }));
      console.log(`${resolve(folder)} has everything that was accepted before ${facts.started_at}, and all secrets.`);
      const unset = (['SECRET_KEY', 'ADDRESS_KEY'] as const).filter((name) => config[name] !== '');
      if (unset.length > 0) console.log(`Not included, because it comes from your environment: ${unset.join(', ')}.`);
    });

  program
    .command('try-restore')
    .description(
      'Restore a backup into a folder beside it, start its Postgres and its ClickHouse there, and audit them; then remove that ' +
        'folder. npm start may be running. Exits with 1 if the backup is of no use.',
    )
    .argument('<folder>', 'the folder of the backup')
    .action(async (folder: string) => {
      const { started_at, links, report, doubt } = await asAdminError(tryRestore(resolve(folder)));
      console.log(`${resolve(folder)} can be restored: everything accepted before ${started_at}, ${links} links.`);
      const { records, lost, duplicated, rollup_difference } = report;
      console.log(
        `Its last 7 days: ${records} records, lost ${lost}, duplicated ${duplicated}, rollup difference ${rollup_difference}.`,
      );
      warnOf(doubt);
    });

  program
    .command('restore')
    .description(
      'Restore a backup into DATA_DIR. npm start must not be running, and DATA_DIR must not contain data of Postgres or ClickHouse. ' +
        'Existing journals and an existing log are kept, because their records may be newer than the backup.',
    )
    .argument('<folder>', 'the folder of the backup')
    .action(async (folder: string) => {
      refuseExternalServers(config);
      const dataDir = resolve(config.DATA_DIR);
      const restored = await asAdminError(restore({ dataDir, folder: resolve(folder) }));
      warnOf(restored.doubt);
      console.log(`${dataDir} is restored to its state at ${restored.started_at}. Start it with npm start.`);
      console.log('Its webhooks, postbacks and mail are held until you run npm run admin -- resume-outbound.');
      if (!restored.hasNewerRecords) return;
      console.log(
        'Its journals and its log were kept and may contain newer records. Once npm start is ready, store them:',
      );
      console.log(`  npm run admin -- replay --from ${restored.replay_from}`);
    });
}

function warnOf(doubt: string | null): void {
  if (doubt !== null) console.error(`Warning: ${doubt}`);
}

function refuseExternalServers(config: ToolConfig<'admin'>): void {
  const given = (['DATABASE_URL', 'CLICKHOUSE_URL'] as const).filter((name) => config[name] !== '');
  if (given.length === 0) return;
  throw new AdminError(
    `${given.join(' and ')} name servers of your own, which this command does not back up or restore: see docs/backup.md.`,
  );
}
