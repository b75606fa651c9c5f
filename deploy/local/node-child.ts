import { copyFileSync, statSync, truncateSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { nodeOptions } from '#common/process/node-options.ts';
import { type Child, logBytesMax, startChild, waitUntilReady } from './child.ts';

export interface NodeProcess {
  readonly name: string;
  /** File to run, .js. */
  readonly entry: string;
  readonly env: NodeJS.ProcessEnv;
  /** Words of a command that runs another, such as `ip netns exec NAME`. */
  readonly within?: readonly string[];
  readonly logFolder: string;
  /** The port of /healthz and /readyz. */
  readonly host: string;
  readonly metricsPort: number;
}

/** A busy or slow machine starts slowly; a process that exits while starting is noticed immediately. */
const readyTimeoutMs = 120_000;
const restartTimeoutMs = 30_000;

/** Whether a path of the process's metrics server returns 200. */
function isOk(host: string, port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ host, port, path, timeout: 2_000 }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}

/**
 * Starts a process of Signpost. @param untilReady waits until it is ready; otherwise only until it is alive, because
 * what it depends on may be away or itself be restarting.
 */
export async function startNodeProcess(plan: NodeProcess, untilReady: boolean): Promise<Child> {
  const logFile = join(plan.logFolder, `${plan.name}.log`);
  const [command = process.execPath, ...args] = [...(plan.within ?? []), process.execPath, ...nodeOptions, plan.entry];
  const child = await startChild({
    name: plan.name,
    command,
    args,
    env: plan.env,
    logFile,
    stopGraceMs: 20_000,
  });
  const [path, timeoutMs] = untilReady ? ['/readyz', readyTimeoutMs] : ['/healthz', restartTimeoutMs];
  await waitUntilReady(child, logFile, () => isOk(plan.host, plan.metricsPort, path), timeoutMs);
  return child;
}

/**
 * Rotates a log that has exceeded its maximum size to `.1`. Its writer appends, so it continues at the top of the
 * emptied file.
 */
export function boundLog(file: string, bytesMax = logBytesMax): void {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) <= bytesMax) return;
  copyFileSync(file, `${file}.1`);
  truncateSync(file, 0);
}
