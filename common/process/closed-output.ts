/**
 * The reader of a command's output may end first, as in `signpost admin audit | head`. The command still does its work, and what
 * it would have printed is dropped.
 */
export function allowClosedOutput(outputs: readonly NodeJS.EventEmitter[] = [process.stdout, process.stderr]): void {
  for (const output of outputs)
    output.on('error', (error: Error) => {
      if (!('code' in error && error.code === 'EPIPE')) throw error;
    });
}
