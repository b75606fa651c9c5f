/**
 * A complete Signpost for a journey: `npm start` with its own folder and ports, used as a person would, only over HTTP.
 * It records the launcher's output, and shows it if the launcher does not become ready.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '#deploy/local/ports.ts';

/** Only for a start or stop that hangs: on a machine with twenty processes per core, a start takes over a minute. */
const readyTimeoutMs = 180_000;
const stopTimeoutMs = 90_000;
const startsMax = 3;

export const login = { email: 'first@example.com', password: 'correct horse battery staple' };

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as JSON. @throws if it is not. */
  json<T>(): T;
}

export interface Call {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface RunningPart {
  readonly name: string;
  readonly pid: number;
}

export class Stack {
  readonly dataDir: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: 32 });
  readonly apiPort: number;
  readonly redirectorPort: number;
  #child: ChildProcess | null = null;
  output = '';

  private constructor(
    dataDir: string,
    ports: readonly [number, number, number],
    settings: Readonly<Record<string, string>>,
  ) {
    this.dataDir = dataDir;
    [this.apiPort, this.redirectorPort] = ports;
    this.#environment = {
      DATA_DIR: dataDir,
      API_PORT: String(ports[0]),
      REDIRECTOR_HTTP_PORT: String(ports[1]),
      REDIRECTOR_HTTPS_PORT: String(ports[2]),
      ADMIN_EMAIL: login.email,
      ADMIN_PASSWORD: login.password,
      REDIRECTOR_PROCESSES: '1',
      RATE_LIMIT_GENERAL: '100000',
      RATE_LIMIT_AUTH: '1000',
      LOGIN_FAILURES_FREE: '1000000',
      RATE_LIMIT_LINKS: '10000',
      // Some journeys use another domain, on machines that may have no Redis.
      REDIS_STAND_IN: 'true',
      // The DNS is not queried for hosts that a journey claims.
      DNS_SERVERS: '127.0.0.1:9',
      ...settings,
    };
  }

  /** @param folder of the release that is started; this one if absent. */
  static async start(settings: Readonly<Record<string, string>> = {}, folder?: string): Promise<Stack> {
    for (let tries = 1; ; tries++) {
      const dataDir = mkdtempSync(join(tmpdir(), 'signpost-journey-'));
      const stack = new Stack(dataDir, [await freePort(), await freePort(), await freePort()], settings);
      try {
        await stack.launch(folder);
        return stack;
      } catch (error) {
        // A launcher that is merely slow would otherwise run on, and slow down every test after it.
        await stack.interrupt();
        // Another test took a port in the meantime.
        if (tries === startsMax || !stack.output.includes(' is in use')) throw error;
        rmSync(dataDir, { recursive: true });
      }
    }
  }

  /** Runs the launcher until it prints `ready`. @param command starts it. @returns the milliseconds that took. */
  launch(folder?: string, command: readonly string[] = ['npm', 'start', '--silent']): Promise<number> {
    const startedMs = Date.now();
    this.output = '';
    const settings = Object.entries(this.#environment).map(([name, value]) => `${name}=${value}`);
    const child = spawn('env', [...settings, ...command], {
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
      ...(folder === undefined ? {} : { cwd: folder }),
    });
    this.#child = child;
    return new Promise((settle, fail) => {
      const giveUp = (why: string) => fail(new Error(`${why}\n${this.output}`));
      const timer = setTimeout(() => giveUp('npm start was not ready in time'), readyTimeoutMs);
      const listen = (chunk: Buffer) => {
        this.output += chunk.toString();
        if (!/^ready$/m.test(this.output)) return;
        clearTimeout(timer);
        settle(Date.now() - startedMs);
      };
      child.stdout.on('data', listen);
      child.stderr.on('data', listen);
      child.once('exit', (code) => {
        clearTimeout(timer);
        giveUp(`npm start ended with ${code}`);
      });
    });
  }

  /** The running processes, from the table that the launcher writes for operators. */
  get parts(): RunningPart[] {
    return JSON.parse(readFileSync(join(this.dataDir, 'processes.json'), 'utf8')) as RunningPart[];
  }

  /** The launcher: the parent of all parts. */
  get launcherPid(): number {
    const [part] = this.parts;
    if (!part) throw new Error('nothing runs');
    const stat = readFileSync(`/proc/${part.pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  }

  pidOf(name: string): number {
    const part = this.parts.find((one) => one.name === name);
    if (!part) throw new Error(`${name} is not among ${this.parts.map((one) => one.name).join(', ')}`);
    return part.pid;
  }

  /** The curl lines that the launcher prints. */
  get printedScript(): string {
    return this.output;
  }

  api(path: string, call: Call = {}): Promise<Reply> {
    return send(httpsRequest, { port: this.apiPort, path: `/v1${path}`, agent: this.#agent }, call);
  }

  /** GET of a short link, as a phone on the network would send it. */
  redirector(path: string, call: Call = {}): Promise<Reply> {
    return send(httpRequest, { port: this.redirectorPort, path }, call);
  }

  async loggedIn(): Promise<(path: string, call?: Call) => Promise<Reply>> {
    const reply = await this.api('/auth/login', { method: 'POST', body: login });
    const { access_token } = reply.json<{ access_token: string }>();
    return (path, call = {}) =>
      this.api(path, { ...call, headers: { ...call.headers, authorization: `Bearer ${access_token}` } });
  }

  /** A command of `npm run admin`, without what npm and a compiler add to its time. Asked for a password, it gets the owner's. */
  async admin(...words: string[]): Promise<void> {
    const settings = [`DATA_DIR=${this.dataDir}`, process.execPath, 'dist/deploy/local/admin.js', ...words];
    const ended = promisify(execFile)('env', settings);
    ended.child.stdin?.end(`${login.password}\n`);
    await ended;
  }

  /** Ends the launcher as Ctrl-C does: a SIGINT to the whole group. @returns its exit code. */
  async interrupt(): Promise<number | null> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return child?.exitCode ?? null;
    child.removeAllListeners('exit');
    const ended = new Promise<number | null>((settle) => child.once('exit', settle));
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGINT');
    const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
    const code = await ended;
    clearTimeout(timer);
    return code;
  }

  async stop(): Promise<void> {
    await this.interrupt();
    this.#agent.destroy();
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** @param target port and path, and what else `http.request` takes. */
export function send(
  by: typeof httpRequest,
  target: object,
  { method = 'GET', headers = {}, body }: Call = {},
): Promise<Reply> {
  const payload = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  const type =
    body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) };
  return new Promise((settle, fail) => {
    const options = { host: '127.0.0.1', method, headers: { ...type, ...headers }, ...target };
    const request = by(options, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('error', fail);
      response.on('end', () =>
        settle({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: <T>() => JSON.parse(text) as T,
        }),
      );
    });
    request.on('error', fail);
    request.end(payload);
  });
}
