import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { blocksOf, followedPages, substituted } from './blocks.ts';

test('the commands of a page are its sh blocks as they stand, in order, without the indentation of a list', () => {
  const text =
    'a\n\n```sh\ncd /x\nls | wc -l\n```\n\n```json\n{}\n```\n\n1. b\n\n   ```sh\n   if true; then\n     ls\n   fi\n   ```\n';
  expect(blocksOf('p', text)).toEqual([
    { page: 'p', line: 3, commands: 'cd /x\nls | wc -l', reason: null, after: null },
    { page: 'p', line: 14, commands: 'if true; then\n  ls\nfi', reason: null, after: null },
  ]);
});

test('a block is left out only for a stated reason', () => {
  const [block] = blocksOf('p', '<!-- not run: an editor -->\n```sh\nnano x\n```\n');
  expect(block?.reason).toBe('an editor');
  expect(() => blocksOf('p', '<!-- not run -->\n```sh\nnano x\n```\n')).toThrow('p:1: say why');
  expect(() => blocksOf('p', '```sh\nls\n')).toThrow('does not end');
});

test('a block can say after what it is run, and a change of a command is refused if the page no longer has the command', () => {
  const blocks = blocksOf('p', '<!-- run after: a fire -->\n```sh\nls OLD\n```\n');
  expect(blocks[0]).toMatchObject({ reason: null, after: 'a fire' });
  expect(substituted(blocks, [['OLD', 'new']])[0]?.commands).toBe('ls new');
  expect(() => substituted(blocks, [['GONE', 'new']])).toThrow('p has no GONE to replace');
});

test('most commands of the pages for one machine are run', () => {
  const blocks = followedPages.flatMap((page) => blocksOf(page, readFileSync(`docs/${page}`, 'utf8')));
  const run = blocks.filter(({ reason }) => reason === null);
  expect(run.length).toBeGreaterThan(8);
  expect(run.length).toBeGreaterThan(blocks.length - run.length);
});
