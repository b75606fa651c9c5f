/** The launcher's output: plain lines, with colour on a terminal. */
export interface Progress {
  /** Whether a person reads the output, and no log keeps it. */
  readonly isTerminal: boolean;
  /** A completed step. */
  done(what: string): void;
  /** A note or a warning. */
  note(line: string): void;
  fault(line: string): void;
  text(block: string): void;
}

/** A closed output (`npm start | head -1`) must not stop the running processes: later output is dropped. */
export function createProgress(output: NodeJS.WritableStream & { readonly isTTY?: boolean }): Progress {
  const started = performance.now();
  const isTerminal = output.isTTY === true;
  const paint = (code: number, text: string) => (isTerminal ? `\x1b[${code}m${text}\x1b[0m` : text);
  let isLost = false;
  const lose = () => {
    isLost = true;
  };
  // Without a listener, the error would be uncaught and end the launcher without an orderly stop of its children.
  output.on('error', lose);
  const write = (line: string) => {
    if (isLost) return;
    try {
      output.write(`${line}\n`);
    } catch {
      // A file on a full disk throws where a pipe emits.
      lose();
    }
  };
  const seconds = () => `${((performance.now() - started) / 1000).toFixed(1)} s`;
  return {
    isTerminal,
    done: (what) => write(`${paint(32, isTerminal ? '✓' : '-')} ${what} ${paint(2, `(${seconds()})`)}`),
    note: (line) => write(`${paint(33, isTerminal ? '!' : '*')} ${line}`),
    fault: (line) => write(`${paint(31, isTerminal ? '✗' : 'x')} ${line}`),
    text: write,
  };
}
