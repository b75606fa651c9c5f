/**
 * Full load by autocannon, if wrk is not installed. It reaches only about 15,000 requests a second, and uses a whole
 * core for that.
 */
import autocannon from 'autocannon';
import { browserHeaders, type WrkResult } from './wrk.ts';

/** More paths than this take longer to load than to request. */
const pathsMax = 10_000;

export async function cannonLoad(options: {
  port: number;
  host: string;
  paths: readonly string[];
  seconds: number;
}): Promise<WrkResult> {
  const headers = { host: options.host, ...browserHeaders };
  const result = await autocannon({
    url: `http://127.0.0.1:${options.port}`,
    connections: 64,
    duration: options.seconds,
    requests: options.paths.slice(0, pathsMax).map((path) => ({ method: 'GET', path, headers })),
  });
  return {
    requests: result.requests.total,
    seconds: result.duration,
    // It counts a redirect as a non-2xx answer.
    refused: result['4xx'] + result['5xx'],
    socketErrors: result.errors,
  };
}
