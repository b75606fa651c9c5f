/**
 * `node dist/signpost.js health`: the health check of a container. Exits with 0 if the process on METRICS_PORT is
 * alive.
 */
import { toolConfig } from '#common/process/config.ts';

const timeoutMs = 2_000;
const { METRICS_HOST, METRICS_PORT } = toolConfig('health');
const host = METRICS_HOST === '0.0.0.0' || METRICS_HOST === '::' ? '127.0.0.1' : METRICS_HOST;

if (METRICS_PORT === 0) {
  console.error('METRICS_PORT is 0, so the port of the process is unknown: set it to a number.');
  process.exitCode = 1;
} else {
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${METRICS_PORT}/healthz`;
  try {
    const { status } = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
    if (status !== 200) console.error(`${url} answers ${status}.`);
    process.exitCode = status === 200 ? 0 : 1;
  } catch (error) {
    console.error(`${url} does not answer: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}
