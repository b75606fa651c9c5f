/** The webhooks process as in production, killed at a step where a trigger or the receiver blocks it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { childEnvironment } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { sleep, systemTime } from '#common/time.ts';
import type { WebhooksStage } from './webhooks-stage.ts';

const instance = 'webhooks-to-kill';
const reachedWithinMs = 60_000;
const endedWithinMs = 20_000;

/**
 * A statement that reaches the trigger waits until its process was killed. Then it continues, as Postgres does for a
 * client that disconnected: a single statement is committed, an open transaction is not.
 */
const waiting = `
  CREATE FUNCTION wait_for_kill() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock_shared(1);
    IF TG_OP = 'DELETE' THEN
      RETURN OLD;
    END IF;
    RETURN NEW;
  END $$`;

export class WebhooksToKill {
  readonly #stage: WebhooksStage;
  readonly #env: NodeJS.ProcessEnv;
  readonly #children = new Set<ChildProcess>();
  output = '';

  private constructor(stage: WebhooksStage, clickhouseUrl: string) {
    this.#stage = stage;
    this.#env = childEnvironment({
      INSTANCE: instance,
      WEBHOOKS_DATABASE_URL: stage.ownUrl,
      CLICKHOUSE_URL: clickhouseUrl,
      SECRET_KEY: stage.secretKey,
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.1/32',
      METRICS_PORT: '0',
    });
  }

  static async create(stage: WebhooksStage, clickhouseUrl: string): Promise<WebhooksToKill> {
    await stage.db.execute(waiting);
    return new WebhooksToKill(stage, clickhouseUrl);
  }

  start(): ChildProcess {
    const child = spawn(process.execPath, [join(packageRoot(), 'dist/webhooks/main.js')], {
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text;
      });
    }
    this.#children.add(child);
    child.once('exit', () => this.#children.delete(child));
    return child;
  }

  /** Starts a process and kills it when one of its statements reaches a trigger. @param trigger what follows its name. */
  async killAtTrigger(trigger: string): Promise<void> {
    const { db } = this.#stage;
    const kind = trigger.includes('DEFERRABLE') ? 'CONSTRAINT TRIGGER' : 'TRIGGER';
    const [, table = ''] = / ON (\w+)/.exec(trigger) ?? [];
    await db.execute(`CREATE ${kind} held ${trigger} EXECUTE FUNCTION wait_for_kill()`);
    await db.transaction(async (queries) => {
      await queries.execute('SET LOCAL idle_in_transaction_session_timeout = 0');
      await queries.execute('SELECT pg_advisory_xact_lock(1)');
      await this.#killWhen(() => isWaiting(db));
    });
    await this.#sessionsEnd();
    await db.execute(`DROP TRIGGER held ON ${table}`);
  }

  /** Starts a process and kills it when the condition holds. */
  async killWhen(condition: () => boolean): Promise<void> {
    await this.#killWhen(async () => condition());
    await this.#sessionsEnd();
  }

  /** Stops a process gracefully. */
  async end(child: ChildProcess): Promise<void> {
    child.kill('SIGTERM');
    await until(async () => hasEnded(child), endedWithinMs, 'the process has not ended');
  }

  /** Kills whatever a test has left running. */
  async stop(): Promise<void> {
    for (const child of this.#children) {
      child.kill('SIGKILL');
      await until(async () => hasEnded(child), endedWithinMs, 'the process has not ended');
    }
  }

  async #killWhen(condition: () => Promise<boolean>): Promise<void> {
    const child = this.start();
    await until(
      async () => {
        if (hasEnded(child)) throw new Error(`the process has ended by itself: ${this.output}`);
        return await condition();
      },
      reachedWithinMs,
      'the process has not come to the moment',
    );
    child.kill('SIGKILL');
    await until(async () => hasEnded(child), endedWithinMs, 'the process has not ended');
  }

  /** The server may still execute statements of a process that is dead. */
  async #sessionsEnd(): Promise<void> {
    const sql = 'SELECT FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()';
    const isOver = async () => (await this.#stage.db.query(sql, [instance])).length === 0;
    await until(isOver, endedWithinMs, 'a session of the killed process has not ended');
  }
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

async function isWaiting(db: Postgres): Promise<boolean> {
  const sql = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  return (await db.query(sql)).length > 0;
}

async function until(condition: () => Promise<boolean>, withinMs: number, otherwise: string): Promise<void> {
  for (const deadline = performance.now() + withinMs; !(await condition()); await sleep(systemTime, 10)) {
    if (performance.now() > deadline) throw new Error(`${otherwise} within ${withinMs} ms`);
  }
}
