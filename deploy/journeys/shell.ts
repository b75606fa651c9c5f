/** A shell that is used as an operator would: command after command, with its variables and functions kept. */
import { type ChildProcess, spawn } from 'node:child_process';

const timeLimitMs = 120_000;
const marker = 'end-of-command';

export class Shell {
  readonly #child: ChildProcess;
  #output = '';
  #wake: () => void = () => undefined;

  /** @param env all that its programs get. */
  constructor(env: Readonly<Record<string, string>>) {
    this.#child = spawn('bash', ['--noprofile', '--norc'], { env, stdio: ['pipe', 'pipe', 'ignore'] });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text;
      this.#wake();
    });
    this.#child.on('exit', () => this.#wake());
  }

  /** @returns what it printed, without the last line break. @throws if it fails. */
  async run(command: string): Promise<string> {
    this.#output = '';
    this.#child.stdin?.write(`{ ${command}\n} 2>&1 </dev/null; echo "${marker} $?"\n`);
    const ended = new RegExp(`^([\\s\\S]*?)${marker} (\\d+)\\n$`);
    const overdue = setTimeout(() => this.#child.kill('SIGKILL'), timeLimitMs);
    try {
      for (;;) {
        const found = ended.exec(this.#output);
        if (found?.[2] === '0') return (found[1] ?? '').trimEnd();
        if (found !== null || this.#child.exitCode !== null || this.#child.signalCode !== null)
          throw new Error(`${command}\nfailed:\n${this.#output}`);
        await new Promise<void>((done) => {
          this.#wake = done;
        });
      }
    } finally {
      clearTimeout(overdue);
    }
  }

  stop(): void {
    this.#child.kill();
  }
}
