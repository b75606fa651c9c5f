/** Full load by wrk, to measure the cost per request of a saturated process. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What a browser sends. */
export const browserHeaders: Readonly<Record<string, string>> = {
  'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
  'Accept-Language': 'de-DE,de;q=0.9,en;q=0.8',
  'Accept-Encoding': 'gzip, deflate, br',
  Referer: 'https://news.example/today',
  'Sec-Fetch-Dest': 'document',
  'Sec-Fetch-Mode': 'navigate',
  'Sec-Fetch-Site': 'cross-site',
  'Upgrade-Insecure-Requests': '1',
};

export interface WrkResult {
  readonly requests: number;
  readonly seconds: number;
  /** Answers with 400 and above. */
  readonly refused: number;
  readonly socketErrors: number;
}

export class Wrk {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  static async isThere(): Promise<boolean> {
    return run('wrk', ['--version']).then(
      () => true,
      // wrk exits with 1 after printing its version.
      (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
    );
  }

  async load(options: { port: number; host: string; paths: readonly string[]; seconds: number }): Promise<WrkResult> {
    const paths = join(this.#folder, 'paths.txt');
    const script = join(this.#folder, 'paths.lua');
    writeFileSync(paths, `${options.paths.join('\n')}\n`);
    const headers = Object.entries({ Host: options.host, ...browserHeaders })
      .map(([name, value]) => `["${name}"] = "${value}"`)
      .join(', ');
    writeFileSync(
      script,
      `local requests, at = {}, 0
       init = function()
         for path in io.lines("${paths}") do requests[#requests + 1] = wrk.format("GET", path, {${headers}}) end
       end
       request = function() at = at % #requests + 1; return requests[at] end
       done = function(summary)
         io.write(string.format("RESULT %d %d %d %d\\n", summary.requests, summary.duration, summary.errors.status,
           summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
       end`,
    );
    const { stdout } = await run('wrk', [
      ...['-t1', '-c64', `-d${options.seconds}s`, '-s', script],
      `http://127.0.0.1:${options.port}`,
    ]);
    const match = /RESULT (\d+) (\d+) (\d+) (\d+)/.exec(stdout);
    if (match === null) throw new Error(`cannot read what wrk printed: ${stdout}`);
    const [, requests, microseconds, refused, socketErrors] = match.map(Number);
    return {
      requests: requests ?? 0,
      seconds: (microseconds ?? 0) / 1e6,
      refused: refused ?? 0,
      socketErrors: socketErrors ?? 0,
    };
  }
}
