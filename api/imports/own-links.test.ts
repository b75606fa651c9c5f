import { expect, test } from 'vitest';
import { linkExample } from '#common/links/link.ts';
import { csvOf } from '#dashboard/csv.ts';
import { linkColumns } from '#dashboard/link-csv.ts';
import { csvRecords } from './csv-records.ts';
import { layoutOf } from './import-columns.ts';
import { isFault, type ReadOptions } from './import-row.ts';
import { readOwnRow } from './own-links.ts';

type Link = Parameters<(typeof linkColumns)[number][1]>[0];

const app = { id: 'app_1', organization_id: 'org_1', host: 'shop.example.com', ignores_case: false };

async function readBack(links: readonly object[]) {
  const given = links.map((link) => ({ ...linkExample, ...link })) as unknown as Link[];
  async function* pieces() {
    yield Buffer.from(csvOf(linkColumns, given));
  }
  const records = [];
  for await (const record of csvRecords(pieces(), { bytes: 0, line: 0 }, ',')) records.push(record.cells);
  const layout = layoutOf('csv', records[0] ?? [], {});
  if (typeof layout === 'string') throw new Error(layout);
  const options: ReadOptions = {
    ...{ source: 'csv', layout, hosts: [], upgradesHttp: false, nowMs: Date.UTC(2026, 10, 27) },
    app: { ...app, bundle_id: null, app_store_id: null, package_name: null },
  };
  return records.slice(1).map((cells) => readOwnRow(cells, options));
}

test('every text comes back character by character, whatever a spreadsheet would take for a formula', async () => {
  let seed = 33;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
  const alphabet = [..."''=+-@;,|\"\t\r\n  ＝\\N{}[]äß😀"];
  const texts = Array.from({ length: 5_000 }, () => {
    const parts = Array.from({ length: 1 + random(8) }, () => alphabet[random(alphabet.length)]);
    return `${parts.join('')}x`;
  });
  const links = await readBack(texts.map((title) => ({ title, tags: [title], data: { [title]: title } })));
  expect(links.map((link) => (isFault(link) ? link : link.fields.title))).toEqual(texts);
  expect(links.map((link) => (isFault(link) ? link : link.fields.tags?.[0]))).toEqual(texts);
  expect(links.map((link) => (isFault(link) ? link : link.fields.data))).toEqual(
    texts.map((text) => ({ [text]: text })),
  );
});

test('what is left of max_clicks is the maximum, and a link that is used up has expired', async () => {
  const used = (n: number) => ({ max_clicks: 100, click_limit: { used: n, held: 0, left: 100 - n, given_up: 0 } });
  const [some, none] = await readBack([used(40), used(100)]);
  expect(some).toMatchObject({ fields: { max_clicks: 60 } });
  expect(none).toMatchObject({ fields: { expires_at: linkExample.created_at } });
  expect(none).not.toHaveProperty('fields.max_clicks');
});

test('a cell that is not what its column says is reported with its field', async () => {
  const rows = await readBack([{ has_password: true }, { archived: 'perhaps' }, { max_clicks: 'many' }]);
  expect(rows).toMatchObject([
    { field: 'has_password', reason: 'password' },
    { field: 'archived', reason: 'invalid' },
    { field: 'max_clicks', reason: 'max_clicks' },
  ]);
});

test('columns of the file may be ignored, and not be renamed', () => {
  const header = linkColumns.map(([name]) => name);
  expect(layoutOf('csv', header, { title: 'campaign' })).toContain('columns.title');
  expect(layoutOf('csv', header, { title: null })).toMatchObject({ own: expect.not.objectContaining({ title: 1 }) });
  expect(layoutOf('csv', header, {})).toMatchObject({ own: expect.objectContaining({ title: 1 }) });
});
