/** A shell that keeps its folder and its variables from one block of a page to the next. */
import { spawn } from 'node:child_process';

export interface Shell {
  /** Runs commands, and prints what they print. @returns it. @throws at the first command that fails. */
  run(commands: string): Promise<string>;
  end(): void;
}

/** @param words the command of a `bash -e` that reads its commands from standard input. */
export function openShell(
  [command = '', ...args]: readonly string[],
  print: (text: string) => void,
  options: { cwd?: string; env?: Readonly<Record<string, string>> } = {},
): Shell {
  const bash = spawn(command, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
  // A command that is written after the end is reported by `run`.
  bash.stdin.on('error', () => undefined);
  let printed = '';
  const listeners = new Set<() => void>();
  for (const stream of [bash.stdout, bash.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      print(text);
      for (const listen of listeners) listen();
    });
  }
  bash.on('exit', () => {
    for (const listen of listeners) listen();
  });
  let blocks = 0;
  return {
    run: (commands) => {
      const mark = `docs-run-block-${++blocks}-of-${process.pid}`;
      printed = '';
      bash.stdin.write(`${commands}\necho ${mark.replace('run', "r'u'n")}\n`);
      return new Promise((done, fail) => {
        const listen = () => {
          const isDone = printed.includes(mark);
          const end = bash.exitCode ?? bash.signalCode;
          if (!isDone && end === null) return;
          listeners.delete(listen);
          if (isDone) done(printed.replace(`${mark}\n`, ''));
          else fail(new Error(`the shell ended with ${end} at this command or before:\n${commands}`));
        };
        listeners.add(listen);
        listen();
      });
    },
    end: () => bash.stdin.end(),
  };
}
