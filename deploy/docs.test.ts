/** What the pages for operators quote and link to exists. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { apiGuide, docSections } from '#common/http/doc-pages.ts';

const pages = [
  'README.md',
  ...readdirSync('docs')
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

/** As it appears in an address: lower case, without punctuation, hyphens for blanks. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');

test.each(pages)('every link of %s to another page leads somewhere', (page) => {
  const links = [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:|mailto:)([^)\s]*)\)/g)].map(
    ([, link]) => link ?? '',
  );
  const broken = links.filter((link) => {
    const [file = '', anchor = ''] = link.split('#');
    const target = file === '' ? page : join(dirname(page), file);
    if (!existsSync(target)) return true;
    if (anchor === '' || !target.endsWith('.md')) return false;
    const headings = [...readFileSync(target, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, text]) => anchorOf(text ?? ''));
    return !headings.includes(anchor);
  });
  expect(broken).toEqual([]);
});

test('the messages that docs/troubleshooting.md explains are those of the code', () => {
  const rows = readFileSync('docs/troubleshooting.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  const quoted = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, text]) => text ?? ''),
  );
  expect(quoted.length).toBeGreaterThan(4);
  const files = ['deploy/local', 'clickhouse', 'common/http', 'common/process', 'ingest', 'publisher'].flatMap(
    (folder) =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.ts'))
        .map((name) => readFileSync(join(folder, name), 'utf8')),
  );
  const isSaid = (text: string) => {
    const parts = text
      .split(/…|\b[NM]\b/)
      .map((part) => part.trim())
      .filter((part) => part.length > 3);
    return files.some((file) => parts.every((part) => file.includes(part)));
  };
  expect(quoted.filter((text) => !isSaid(text))).toEqual([]);
});

test('docs/coming-from-dub.md names operations and fields that the API has, and a reason where there is none', () => {
  const document = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as {
    paths: Record<string, Record<string, object>>;
    components: { schemas: { NewLink: { properties: object } } };
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const known = new Set([...operations, ...Object.keys(document.components.schemas.NewLink.properties)]);
  const rows = [...readFileSync('docs/coming-from-dub.md', 'utf8').matchAll(/^\| (.+?) \| (.+?) \|(.*)\|$/gm)]
    .map(([, theirs = '', ours = '', notes = '']) => ({ theirs, ours, notes: notes.trim() }))
    .filter(({ theirs }) => theirs !== 'Dub' && !theirs.startsWith('---'));
  expect(rows.length).toBeGreaterThan(40);
  const wrong = rows.filter(({ ours, notes }) => {
    if (ours === 'none') return notes === '';
    const names = [...ours.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? '');
    return names.length === 0 || !names.every((name) => known.has(name));
  });
  expect(wrong).toEqual([]);
});

test('every section to which an error points exists in docs/api.md', () => {
  const headings = [...readFileSync(join('docs', apiGuide), 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, text]) =>
    anchorOf(text ?? ''),
  );
  expect(docSections.filter((section) => !headings.includes(section))).toEqual([]);
  expect(docSections.length).toBeGreaterThan(5);
});

test('docs/segment-posthog.md names the versions of the packages that the tests run', () => {
  const page = readFileSync('docs/segment-posthog.md', 'utf8');
  const named = [...page.matchAll(/^\| `(\S+)` ([\d.]+) \|/gm)].map(([, name, version]) => `${name} ${version}`);
  const { devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  const installed = Object.entries(devDependencies).filter(([name]) => /segment|posthog/.test(name));
  expect(named.sort()).toEqual(installed.map(([name, version]) => `${name} ${version}`).sort());
});
