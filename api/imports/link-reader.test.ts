import { expect, test } from 'vitest';
import { exportedLink, exportFormats } from '#api/testing/export-files.ts';
import { type ColumnChoice, type ImportSource, importSources, layoutOf } from './import-columns.ts';
import { isFault, type ReadOptions } from './import-row.ts';
import { timeOf, wordsOf } from './import-values.ts';
import { readRow } from './link-reader.ts';

const host = 'go.example.com';
const app = {
  id: 'app_1',
  organization_id: 'org_1',
  host,
  ignores_case: false,
  bundle_id: 'com.example.shop',
  app_store_id: '123456789',
  package_name: 'com.example.shop',
};

function optionsFor(source: ImportSource, header: readonly string[], columns: ColumnChoice = {}): ReadOptions {
  const layout = layoutOf(source, header, columns);
  if (typeof layout === 'string') throw new Error(layout);
  return { source, layout, app, hosts: [], upgradesHttp: false, nowMs: Date.UTC(2026, 0, 1) };
}

/** A row of a plain CSV file with these columns. */
function read(row: Readonly<Record<string, string>>, more: Partial<ReadOptions> = {}) {
  return readRow(Object.values(row), { ...optionsFor('csv', Object.keys(row)), ...more });
}

test.each(importSources)('a row of %s keeps its code, destination, date, click total and state', (source) => {
  const exported = exportedLink(70);
  const { header, row } = exportFormats[source];
  const cells = row(exported, host).map(String);
  const first = header.length > 0 ? header : cells;
  const choice: ColumnChoice = source === 'csv' ? { destination: 'where to', created_at: 3, clicks: 'Taps' } : {};
  const options = optionsFor(source, first, choice);
  expect(options.layout.hasHeader).toBe(header.length > 0);
  const link = readRow(cells, options);
  if (isFault(link)) throw new Error(`${link.field} ${link.message}`);
  expect(link.codes[0]).toBe(exported.code);
  expect(link.created_at).toBe(exported.created.toISOString());
  expect(link.clicks_before).toBe(source === 'firebase' ? null : exported.clicks);
  const { fields } = link;
  if (header.some((name) => /max.?visits|clicks.?limit/i.test(name))) expect(fields.max_clicks).toBe(15);
  expect(fields.android_url).toBe(source === 'firebase' ? undefined : exported.destination);
  expect(fields.fallback_url).toBe(exported.destination + (source === 'firebase' ? '&desktop=1' : ''));
  if (header.some((name) => /archived|deleted|banned/i.test(name))) expect(fields.archived).toBe(true);
  if (header.some((name) => /tags/i.test(name))) expect(fields.tags).toEqual(exported.tags);
  if (header.some((name) => /title|description|name/i.test(name))) expect(fields.title).toBe(exported.title);
});

test('a Firebase link goes to the stores of its app, and keeps every parameter', () => {
  const { header, row } = exportFormats.firebase;
  const link = readRow(row(exportedLink(1), host).map(String), optionsFor('firebase', header));
  expect(link).toMatchObject({
    fields: {
      path: new URL(exportedLink(1).destination).pathname + new URL(exportedLink(1).destination).search,
      og_title: 'Product "1", übersicht; new',
      utm_source: 'mail',
      tap_page: 'off',
      data: { firebase: { amv: '12', imv: '2.1', ius: 'shop' } },
    },
  });
  expect(Object.keys((link as { fields: object }).fields)).not.toContain('ios_url');
  // The same file without a header.
  expect(
    readRow(row(exportedLink(1), host).map(String), optionsFor('firebase', row(exportedLink(1), host).map(String))),
  ).toEqual(link);
});

test('a Firebase link without an app opens its deep link, or its own fallbacks', () => {
  const header = ['Short link', 'link', 'apn', 'afl', 'ibi', 'ifl'];
  const of = (...cells: string[]) =>
    readRow([`https://${host}/a`, 'https://e.example/x', ...cells], optionsFor('firebase', header));
  expect(of('', '', '', '')).toMatchObject({
    fields: { ios_url: 'https://e.example/x', android_url: 'https://e.example/x', fallback_url: 'https://e.example/x' },
  });
  expect(of('com.example.shop', 'https://a.example/', 'com.example.shop', 'https://i.example/')).toMatchObject({
    fields: { ios_url: 'https://i.example/', android_url: 'https://a.example/', fallback_url: 'https://e.example/x' },
  });
  expect(of('com.other', '', '', '')).toMatchObject({ field: 'apn', reason: 'other_app' });
  expect(of('', '', 'com.other', '')).toMatchObject({ field: 'ibi', reason: 'other_app' });
});

test('other fields of a Branch link are passed to the app, and a Bitly link keeps all its codes', () => {
  const branch = exportFormats.branch;
  const link = readRow(branch.row(exportedLink(2), host).map(String), optionsFor('branch', branch.header));
  expect(link).toMatchObject({ fields: { path: 'products/6', campaign: 'spring', data: { product_id: '6' } } });
  const bitly = exportFormats.bitly;
  const cells = bitly.row(exportedLink(2), host).map(String);
  expect(readRow(cells, optionsFor('bitly', bitly.header))).toMatchObject({ codes: ['Code.2', 'custom-6'] });
  cells[6] = '["https://bit.ly/other-host", "custom-7"]';
  expect(readRow(cells, optionsFor('bitly', bitly.header))).toMatchObject({ codes: ['Code.2', 'custom-7'] });
});

const good = { code: 'a', destination: 'https://e.example/' };

test.each([
  ['an empty code', { ...good, code: '' }, 'code', 'bad_code'],
  ['a code with a space', { ...good, code: 'a b' }, 'code', 'bad_code'],
  ['a code that is reserved', { ...good, code: '.well-known/assetlinks.json' }, 'code', 'bad_code'],
  ['a code that is no UTF-8', { ...good, code: 'a%ff' }, 'code', 'bad_code'],
  ['a host of another', { ...good, host: 'bit.ly' }, 'host', 'other_host'],
  [
    'a short URL of another host',
    { short_url: 'https://bit.ly/a', destination: 'https://e.example/' },
    'short_url',
    'other_host',
  ],
  ['no destination', { ...good, destination: '' }, 'destination', 'no_destination'],
  ['a destination that is no URL', { ...good, destination: 'example.com' }, 'url', 'invalid'],
  ['a destination with http', { ...good, destination: 'http://e.example/' }, 'url', 'invalid'],
  ['a destination in an app', { ...good, destination: 'shop://x' }, 'url', 'invalid'],
  ['a script', { ...good, destination: 'javascript:alert(1)' }, 'url', 'invalid'],
  ['a date that can be two', { ...good, created_at: '03/04/2024' }, 'created_at', 'bad_time'],
  ['a date in the future', { ...good, created_at: '2030-01-01' }, 'created_at', 'bad_time'],
  ['a password', { ...good, password: 'yes' }, 'password', 'password'],
  ['a maximum without the clicks so far', { ...good, max_clicks: '5' }, 'max_clicks', 'max_clicks'],
  ['a maximum that is no number', { ...good, max_clicks: 'ten', clicks: '1' }, 'max_clicks', 'max_clicks'],
  ['a maximum that is no whole number', { ...good, max_clicks: '2.5', clicks: '1' }, 'max_clicks', 'max_clicks'],
  ['a maximum that can be two', { ...good, max_clicks: '1.000', clicks: '1' }, 'max_clicks', 'max_clicks'],
  ['a maximum beside unreadable clicks', { ...good, max_clicks: '5', clicks: 'few' }, 'max_clicks', 'max_clicks'],
  ['rules that the file only mentions', { ...good, hasRedirectRules: 'true' }, 'targeting', 'targeting'],
  ['a target by country', { ...good, geo: '{"DE":"https://de.example/"}' }, 'targeting', 'targeting'],
  ['a date that does not exist', { ...good, created_at: '2024-02-31' }, 'created_at', 'bad_time'],
  ['a beginning that does not exist', { ...good, valid_since: '2030-02-31' }, 'starts_at', 'bad_time'],
  ['a beginning in the future', { ...good, valid_since: '2030-01-01' }, 'starts_at', 'not_yet'],
  ['bytes that are no text', { ...good, title: 'a\ufffd' }, 'row', 'not_text'],
  ['a campaign that is too long', { ...good, campaign: 'x'.repeat(256) }, 'campaign', 'invalid'],
])('%s is unsupported, and the report says which field', (_, row, field, reason) => {
  expect(read(row)).toMatchObject({ field, reason });
});

test.each<[string, string[], string[], ImportSource]>([
  [
    'a comma in the destination',
    ['code', 'url', 'title'],
    ['maps', 'https://w.example/@52.5', '13.4', '15z', 'Map'],
    'csv',
  ],
  ['a comma in the title', ['code', 'url', 'title'], ['maps', 'https://w.example/', 'Berlin', ' Mitte'], 'csv'],
  [
    'a comma before columns without a name',
    ['code', 'url', '', ''],
    ['maps', 'https://w.example/@52.5', '13.4'],
    'csv',
  ],
  [
    'a comma in a file without a header',
    [],
    ['maps', 'https://w.example/', 'a', '2024-01-31', '::1', '5', '6'],
    'yourls',
  ],
  ['a comma in a file of Bitly', ['link', 'long_url'], [`https://${host}/a`, 'https://w.example/?a=1', '2'], 'bitly'],
])('a row with %s is not cut, but unsupported', (_, header, cells, source) => {
  const options = optionsFor(source, header.length > 0 ? header : ['a', 'https://w.example/', 'b']);
  expect(readRow(cells, options)).toMatchObject({ field: 'row', reason: 'extra_cells' });
});

const kuttHeader = [
  'id',
  'address',
  'target',
  'description',
  'banned',
  'domain_id',
  'password',
  'expire_in',
  'visit_count',
];

test.each([
  ['the default domain', '', null],
  ['the default domain, as Postgres writes it', String.raw`\N`, null],
  ['the default domain, as others write it', 'NULL', null],
  ['another domain', '3', 'other_host'],
  ['a domain with a UUID', '0b1c9d5e-2f3a-4b5c-8d6e-7f8091a2b3c4', 'other_host'],
  ['a domain that hosts names', '7', null],
])('a row of Kutt of %s is imported or refused', (_, domain, reason) => {
  const cells = ['1', 'code', 'https://w.example/', 'NULL', 'f', domain, String.raw`\N`, 'NULL', '5'];
  const link = readRow(cells, { ...optionsFor('kutt', kuttHeader), hosts: ['7'] });
  if (reason !== null) expect(link).toMatchObject({ field: 'host', reason });
  else
    expect(link).toMatchObject({ codes: ['code'], clicks_before: 5, fields: { fallback_url: 'https://w.example/' } });
  expect(JSON.stringify(link)).not.toContain('NULL');
});

test.each(['NULL', 'null', 'Null', String.raw`\N`])('%s is empty in every column', (nothing) => {
  const row = {
    ...good,
    title: nothing,
    tags: nothing,
    expires_at: nothing,
    max_clicks: nothing,
    password: nothing,
    geo: nothing,
  };
  const link = read({
    ...row,
    ios: nothing,
    campaign: nothing,
    utm_source: nothing,
    og_image: nothing,
    created: nothing,
  });
  expect(link).toMatchObject({ codes: ['a'], created_at: null });
  expect(JSON.stringify(link)).not.toContain(JSON.stringify(nothing));
  expect(read({ ...good, code: nothing })).toMatchObject({ field: 'code', reason: 'bad_code' });
  expect(read({ ...good, destination: nothing })).toMatchObject({ reason: 'no_destination' });
});

test('empty cells at the end of a row, and missing ones, are read', () => {
  const options = optionsFor('csv', ['code', 'url', 'title']);
  for (const more of [[], ['Map'], ['Map', '', ' '], ['', '']])
    expect(readRow(['maps', 'https://w.example/', ...more], options)).toMatchObject({ codes: ['maps'] });
});

test.each([
  ['5', '2', 3],
  ['1,000', '999', 1],
  ['5', '0', 5],
  ['100.0', '4.0', 96],
  ['0', '2', undefined],
  ['', '2', undefined],
  ['null', '2', undefined],
  ['unlimited', '2', undefined],
])('of a maximum of %s clicks with %s so far, the rest becomes the maximum here', (max_clicks, clicks, left) => {
  const link = read({ ...good, max_clicks, clicks });
  if (isFault(link)) throw new Error(link.message);
  expect([link.fields.max_clicks, link.fields.expires_at]).toEqual([left, undefined]);
  expect(link.clicks_before).toBe(Number(clicks));
});

test.each([
  ['5', '5', '2024-01-31T09:30:00Z', '2024-01-31T09:30:00.000Z'],
  ['5', '7', '2024-01-31T09:30:00Z', '2024-01-31T09:30:00.000Z'],
  ['5', '7', '', '1970-01-02T00:00:00.000Z'],
])(
  'a maximum of %s clicks of which %s were used has expired when the link was created',
  (max, clicks, made, expired) => {
    const row = {
      ...good,
      max_clicks: max,
      clicks,
      created_at: made,
      expires_at: '2030-01-01',
      expired_url: 'https://e.example/end',
    };
    expect(read(row)).toMatchObject({
      fields: { expires_at: expired, expired_url: 'https://e.example/end' },
      clicks_before: Number(clicks),
    });
    expect(Object.keys((read(row) as { fields: object }).fields)).not.toContain('max_clicks');
  },
);

test('an import can take over codes of other hosts, fold their case, and change http to https', () => {
  const row = { short_url: 'http://old.example/Été/A?x#y', destination: 'http://e.example/' };
  expect(read(row, { hosts: ['old.example'], upgradesHttp: true, app: { ...app, ignores_case: true } })).toMatchObject({
    codes: ['Été/a'],
    fields: { fallback_url: 'https://e.example/' },
  });
});

test.each([
  ['2024-01-31', '2024-01-31T00:00:00.000Z'],
  ['2024-01-31 09:30:00', '2024-01-31T09:30:00.000Z'],
  ['2024-01-31 09:30:00.123456+00', '2024-01-31T09:30:00.123Z'],
  ['2024-01-31T09:30:00+0200', '2024-01-31T07:30:00.000Z'],
  ['2024-01-31T09:30:00-05:00', '2024-01-31T14:30:00.000Z'],
  ['2024-01-31 09:30:00 UTC', '2024-01-31T09:30:00.000Z'],
  ['1706693400', '2024-01-31T09:30:00.000Z'],
  ['1706693400000', '2024-01-31T09:30:00.000Z'],
  ['Wed, 31 Jan 2024 09:30:00 GMT', '2024-01-31T09:30:00.000Z'],
  ['31/01/2024', null],
  ['2024-13-01', null],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ['2024-02-31', null],
  ['2023-02-29 09:30:00', null],
  ['2024-04-31T09:30:00+02:00', null],
  ['2024-01-31 09:30 CEST', null],
  ['yesterday', null],
  ['0', null],
])('the time %s is read as %s', (text, iso) => {
  const ms = timeOf(text);
  expect(ms === null ? null : new Date(ms).toISOString()).toBe(iso);
});

test.each([
  ['a|b', ['a', 'b']],
  ['a, b', ['a', 'b']],
  ['a;b,c', ['a', 'b,c']],
  ['["a", "b,c"]', ['a', 'b,c']],
  ['[{"id":1,"name":"a"}]', ['a']],
  ['[draft]', ['[draft]']],
  ['', []],
])('the list %s is read as its words', (text, words) => {
  expect(wordsOf(text)).toEqual(words);
});

test.each([
  ['csv', ['a', 'b'], {}, 'short URL'],
  ['csv', ['code', 'b'], {}, 'destination'],
  ['csv', ['code', 'b'], { destination: 'c' }, 'no column c'],
  ['csv', ['code', 'b'], { destination: 3 }, 'no column 3'],
  ['firebase', ['Short link', 'b'], {}, 'columns.link'],
] as const)('a file of %s with the columns %s is refused with what is missing', (source, header, choice, message) => {
  expect(layoutOf(source, header, choice)).toContain(message);
});

test.each([
  ['tags', String.raw`["a","\u0000"]`],
  ['tags', String.raw`[{"name":"\ud800"}]`],
  ['other_codes', String.raw`["go.example.com/a\ud800"]`],
  ['other_codes', String.raw`["a\u0000"]`],
])('%s whose JSON holds text that cannot be stored make the row unsupported: %s', (field, text) => {
  expect(read({ code: 'abc', destination: 'https://example.com/', [field]: text })).toMatchObject({ field });
});

test('a list that is nested too deeply does not abort the import', () => {
  const text = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
  expect(read({ code: 'abc', destination: 'https://example.com/', tags: text })).toMatchObject({ field: 'tags[0]' });
});
