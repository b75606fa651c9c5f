/** `npm run admin -- <command>`: manages users, organizations and keys, and audits the analytics. Its entry is `deploy/local/admin.ts`. */

import type { Command } from 'commander';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { systemClock } from '#common/clock.ts';
import { allowClosedOutput } from '#common/process/closed-output.ts';
import { ConfigError, closeNewFiles, toolConfig } from '#common/process/config.ts';
import type { ToolConfig } from '#common/process/config-roles.ts';
import { fileFault } from '#common/process/file-fault.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres, PostgresUnavailable, patientConnectMs } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import type { AdminParts } from './admin/accounts.ts';
import { addAuditCommand } from './admin/audit.ts';
import { adminProgram } from './admin/commands.ts';
import { addEraseCommand } from './admin/erase.ts';
import {
  localClickHouseUrl,
  localDatabaseUrl,
  localNatsUrl,
  localRedisUrl,
  localSecretKey,
} from './admin/local-store.ts';
import { AdminError } from './admin/questions.ts';
import { addRevisionCommands } from './admin/revision.ts';
import { lostFramesSince } from './analytics/audit-turns.ts';

/** Rewriting a table takes one long statement. */
const rewriteTimeoutMs = 600_000;
const reachTimeoutMs = 5_000;

function known(name: string, url: string): string {
  if (url === '')
    throw new AdminError(
      `${name} is not set, and npm start is not running that server on this machine. Set it, or run npm start first.`,
    );
  return url;
}

async function reach(clickhouseUrl: string): Promise<void> {
  const client = new ClickHouse({ url: clickhouseUrl, requestTimeoutMs: reachTimeoutMs, connectionsMax: 1 });
  try {
    await client.query('SELECT 1');
  } finally {
    await client.close();
  }
}

/** @param addCommands adds commands that other rooms have. */
async function run(addCommands: (program: Command, config: ToolConfig<'admin'>) => void): Promise<void> {
  allowClosedOutput();
  closeNewFiles();
  const config = toolConfig('admin');
  let db: Postgres | undefined;
  const parts = (): AdminParts => {
    const url = config.DATABASE_URL || localDatabaseUrl(config.DATA_DIR);
    if (url === '')
      throw new AdminError(
        'DATABASE_URL is not set, and npm start is not running Postgres on this machine. Set it, or run npm start first.',
      );
    db ??= new Postgres({ url, name: 'admin', connectionsMax: 1, connectTimeoutMs: patientConnectMs });
    return { db, clock: systemClock };
  };
  let clickhouse: ClickHouse | undefined;
  let redis: Redis | undefined;
  let nats: Nats | undefined;
  const program = adminProgram({
    parts,
    adminEmail: config.ADMIN_EMAIL,
    adminPassword: config.ADMIN_PASSWORD,
    secretKey: config.SECRET_KEY || localSecretKey(config.DATA_DIR),
    print: (line) => console.log(line),
    warn: (line) => console.error(line),
  });
  const clickhouseUrl = () => known('CLICKHOUSE_URL', config.CLICKHOUSE_URL || localClickHouseUrl(config.DATA_DIR));
  const openClickHouse = (): ClickHouse => {
    clickhouse ??= new ClickHouse({ url: clickhouseUrl(), requestTimeoutMs: 600_000, connectionsMax: 2 });
    return clickhouse;
  };
  addEraseCommand(program, {
    stores: async () => {
      const urls = {
        db: known('DATABASE_URL', config.DATABASE_URL || localDatabaseUrl(config.DATA_DIR)),
        redis: known('REDIS_URL', config.REDIS_URL || localRedisUrl(config.DATA_DIR)),
        nats: known('NATS_URL', config.NATS_URL || localNatsUrl(config.DATA_DIR)),
      };
      db ??= new Postgres({
        url: urls.db,
        name: 'admin',
        connectionsMax: 1,
        connectTimeoutMs: patientConnectMs,
        statementTimeoutMs: rewriteTimeoutMs,
      });
      redis ??= new Redis({ url: urls.redis, name: 'admin', commandTimeoutMs: 10_000 });
      await redis.connect();
      nats ??= await Nats.connect({ url: urls.nats, name: 'admin', installation: config.INSTALLATION });
      return { db, redis, nats, clickhouse: openClickHouse(), clock: systemClock };
    },
    print: (line) => console.log(line),
  });
  const records = {
    clickhouse: openClickHouse,
    reachClickHouse: () => reach(clickhouseUrl()),
    nowMs: systemClock,
    print: (line: string) => console.log(line),
    postgres: () => parts().db,
    onFaults: () => {
      process.exitCode = 1;
    },
  };
  addAuditCommand(program, { ...records, lostSince: (from) => lostFramesSince(parts().db, from) });
  addRevisionCommands(program, records);
  addCommands(program, config);
  try {
    await program.parseAsync();
  } finally {
    await Promise.all([db?.close(), clickhouse?.close(), redis?.close(), nats?.close()]);
  }
}

/** Runs the command in the process's arguments. An expected failure is one message; the exit code is then 1. */
export async function runAdmin(addCommands: (program: Command, config: ToolConfig<'admin'>) => void): Promise<void> {
  try {
    await run(addCommands);
  } catch (error) {
    const isExpected =
      error instanceof AdminError || error instanceof ConfigError || error instanceof PostgresUnavailable;
    const isAway = error instanceof ClickHouseFailure && error.kind === 'unavailable';
    if (isAway) console.error(`ClickHouse is unavailable: ${error.message}`);
    else console.error(isExpected ? error.message : (fileFault(error) ?? error));
    process.exitCode = 1;
  }
}
