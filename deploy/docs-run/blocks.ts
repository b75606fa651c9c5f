/** The commands of a page: its fenced `sh` blocks, in order. */

/** The pages that `npm run test:docs` follows, in order. */
export const followedPages = ['production.md', 'upgrade.md', 'backup.md'] as const;

export interface Block {
  readonly page: string;
  readonly line: number;
  readonly commands: string;
  /** Why the page says that the block is not run; null if it is run. */
  readonly reason: string | null;
  /** What must have happened before the block is run, if that is not what precedes it on the page. */
  readonly after: string | null;
}

/** What stands for something that only a real machine has, or that the test needs, and why. */
export type Substitution = readonly [written: string, run: string, reason?: string];

const marker = /^\s*<!-- (?:not run: (?<reason>.+)|run after: (?<after>.+)) -->$/;

/** @throws if a block does not end, or says that it is not run without a reason. */
export function blocksOf(page: string, text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const indent = /^( *)```sh$/.exec(lines[at] ?? '')?.[1];
    if (indent === undefined) continue;
    const end = lines.indexOf(`${indent}\`\`\``, at);
    if (end === -1) throw new Error(`${page}:${at + 1}: this block does not end`);
    const commands = lines.slice(at + 1, end).map((line) => line.slice(indent.length));
    const before = lines[at - 1] ?? '';
    const { reason = null, after = null } = marker.exec(before)?.groups ?? {};
    if (/not run|run after/.test(before) && reason === null && after === null) {
      throw new Error(`${page}:${at}: say why the block is not run: <!-- not run: REASON -->`);
    }
    blocks.push({ page, line: at + 1, commands: commands.join('\n'), reason, after });
    at = end;
  }
  return blocks;
}

/** The blocks of a page with its substitutions. @throws if one of these does not occur. */
export function substituted(blocks: readonly Block[], substitutions: readonly Substitution[]): Block[] {
  const text = blocks.map(({ commands }) => commands).join('\n');
  for (const [written] of substitutions)
    if (!text.includes(written)) throw new Error(`${blocks[0]?.page} has no ${written} to replace`);
  const replaced = (commands: string) =>
    substitutions.reduce((changed, [written, run]) => changed.replaceAll(written, run), commands);
  return blocks.map((block) => ({ ...block, commands: replaced(block.commands) }));
}
