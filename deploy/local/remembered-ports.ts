/** Ports that npm start chose, in a file of DATA_DIR: each start reuses them, so that known URLs stay valid. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { freePort, isFree } from './ports.ts';

const triesMax = 3;

/** If a process did not start, the message contains the end of its log. */
function isPortTaken(error: unknown): boolean {
  return error instanceof Error && /EADDRINUSE|address already in use|is in use/i.test(error.message);
}

export class RememberedPorts {
  readonly #file: string;
  readonly #ports: Map<string, number>;

  constructor(file: string) {
    this.#file = file;
    this.#ports = new Map(Object.entries(readPorts(file)));
  }

  /** The port of an earlier start if it is free, otherwise another one. */
  async choose(name: string, host = '127.0.0.1'): Promise<number> {
    const before = this.#ports.get(name);
    if (before !== undefined && (await isFree(before, host))) return before;
    let port = await freePort(host);
    while ([...this.#ports.values()].includes(port)) port = await freePort(host);
    this.#ports.set(name, port);
    this.#write();
    return port;
  }

  /** Starts the listener on the port of this name, or on another port if a program takes it first. */
  async startOn<T>(name: string, start: (port: number) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const port = await this.choose(name);
      try {
        return await start(port);
      } catch (error) {
        if (tries === triesMax || !isPortTaken(error)) throw error;
        this.#ports.delete(name);
      }
    }
  }

  #write(): void {
    const sorted = Object.fromEntries([...this.#ports].sort(([a], [b]) => (a < b ? -1 : 1)));
    writeFileSync(`${this.#file}.new`, `${JSON.stringify(sorted, null, 2)}\n`);
    renameSync(`${this.#file}.new`, this.#file);
  }
}

/** Empty if the file is missing or damaged; then other ports are chosen. */
function readPorts(file: string): Record<string, number> {
  try {
    const read: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof read !== 'object' || read === null) return {};
    return Object.fromEntries(
      Object.entries(read).filter(([, port]) => Number.isInteger(port) && port > 0 && port < 65_536),
    );
  } catch {
    return {};
  }
}
