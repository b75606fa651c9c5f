import { createRequire } from 'node:module';

export interface NodeProgram {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/**
 * How Node runs a file: what is built as it is; TypeScript, in development and tests, with tsx. tsx must not keep code in the
 * folder for temporary files: what another user has put there would run.
 */
export function nodeProgram(entry: string): NodeProgram {
  if (!entry.endsWith('.ts')) return { args: [entry], env: {} };
  const loader = createRequire(import.meta.url).resolve('tsx');
  return { args: ['--import', loader, entry], env: { TSX_DISABLE_CACHE: '1' } };
}
