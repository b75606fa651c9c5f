/**
 * Values that match a JSON schema, and values that match nothing. Known names get what they mean: ids, hosts, zones.
 */
import fc from 'fast-check';
import { isObject } from '#common/json-object.ts';
import type { Schema } from './description.ts';

const DEPTH_MAX = 6;

/** Mostly valid values: one invalid field ends a request, and the code behind it would stay untested. */
function mostly<T>(good: fc.Arbitrary<T>, bad: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return fc.oneof({ weight: 20, arbitrary: good }, { weight: 1, arbitrary: bad });
}

const address = mostly(
  fc.constantFrom('https://example.com/', 'https://example.com/a?b=c#d', 'https://EXAMPLE.com:8443/%F0%9F%98%80'),
  fc.constantFrom(
    'https://user@example.com/',
    'https://xn--bcher-kva.example/',
    'http://example.com/',
    'javascript:alert(1)',
    'https://[::1]/',
    'https://',
    '//example.com',
    'https://example.com/\r\nSet-Cookie: a=b',
  ),
);
const moment = mostly(
  fc
    .date({ min: new Date('2026-06-01'), max: new Date('2027-06-01'), noInvalidDate: true })
    .map((date) => date.toISOString()),
  fc.constantFrom(
    '2026-02-30',
    '2026-01-01',
    '2026-01-01T00:00:00+14:00',
    '0000-01-01T00:00:00Z',
    '9999-12-31T23:59:59Z',
    '+275760-09-13T00:00:00Z',
  ),
);
const zone = mostly(
  fc.constantFrom('UTC', 'Asia/Kolkata', 'America/St_Johns', 'Europe/Berlin', 'Pacific/Apia'),
  fc.constantFrom('Mars/Base', '+05:30', "UTC'--", ''),
);
const filter = (slot: string) =>
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.constantFrom(`{{${slot}:0}}`, `-{{${slot}:0}}`, `{{${slot}:0}},{{${slot}:1}}`, `{{${slot}:2}}`),
    },
    { weight: 1, arbitrary: fc.constantFrom('', '-', ',', "x' OR 1=1 --") },
    { weight: 1, arbitrary: fc.string({ maxLength: 60 }) },
  );

/** What a name stands for, wherever it appears. */
const byName: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  app_id: fc.oneof({ weight: 8, arbitrary: filter('app') }, { weight: 8, arbitrary: at('app') }, at('foreign_app')),
  link_id: fc.oneof({ weight: 8, arbitrary: filter('link') }, { weight: 8, arbitrary: at('link') }, at('foreign_link')),
  organization_id: fc.oneof(
    { weight: 4, arbitrary: at('organization') },
    { weight: 1, arbitrary: fc.constant('org_01kzg3v5k2e5v8m7n4p1q9r6s3') },
  ),
  id: fc.oneof({ weight: 5, arbitrary: at('link') }, at('foreign_link'), fc.constant('lnk_01j9z3k4m5n6p7q8r9s0t1v2w3')),
  click_id: fc.oneof(at('click'), fc.string({ maxLength: 64 })),
  provider: fc.constantFrom('google', 'github', 'facebook', '__proto__'),
  email: fc.oneof(fc.constant('first@example.com'), fc.constantFrom('nobody@example.com', 'A@B', ' ')),
  password: fc.constantFrom('correct horse battery staple', 'wrong'),
  privacy_mode: fc.constantFrom('anonymize_ip', 'full_ip', 'no_ip'),
  refresh_token: at('refresh'),
  file: fc.constantFrom('swagger-ui.css', 'swagger-ui-bundle.js', '../package.json', 'constructor'),
  uri_scheme: mostly(fc.constantFrom('myapp', 'a-b.c+d'), fc.constantFrom('https', 'javascript')),
  host: mostly(
    fc.stringMatching(/^[a-z]{4,16}$/).map((name) => `${name}.example.org`),
    fc.oneof(at('host'), fc.constantFrom('localhost', 'a..b', 'Ünïcode.example', '127.0.0.1')),
  ),
  timezone: zone,
  start: moment,
  end: moment,
  installed_at: fc.oneof(moment, fc.integer()),
  timestamp: fc.oneof(fc.constantFrom(null), moment, fc.double()),
  language: fc.constantFrom('de-DE', 'en', 'zh-Hant-TW', 'x'),
  url: fc.oneof(
    fc.tuple(at('host'), at('code')).map(([host, code]) => `https://${host}/${code}`),
    address,
  ),
  clipboard_url: fc.oneof(
    fc.tuple(at('host'), at('code')).map(([host, code]) => `https://${host}/${code}?click_id={{click:0}}`),
    address,
  ),
  install_referrer: fc.constantFrom(
    'click_id={{click:0}}',
    'click_id%3D{{click:0}}',
    'utm_source=a&click_id=',
    '%',
    '%E0%A4%A',
  ),
  revenue: fc.oneof(
    fc.record({
      amount: fc.constantFrom<unknown>('9.99', 9.99, '1e400', '-1', '0.000000001', 'NaN', null),
      currency: fc.constantFrom<unknown>('EUR', 'eur', 'XXXX', 7),
    }),
    fc.constant(null),
  ),
  granularity: fc.constantFrom('hour', 'day', 'week', 'month'),
  cursor: fc.oneof(fc.string({ maxLength: 80 }), fc.base64String({ maxLength: 80 })),
};

/** Text that has broken parsers, stores and log files before. */
export const nastyText = fc.constantFrom(
  '',
  ' ',
  '\u0000',
  '\ud800',
  '\uffff',
  '\u202egnp.exe',
  '\r\nX-Injected: 1',
  "'; DROP TABLE links; --",
  ['$', '{jndi:ldap://x}'].join(''),
  '{{7*7}}',
  '../../../../etc/passwd',
  '%00',
  '%',
  'null',
  'NaN',
  '1e400',
  '-0',
  '\\',
  '__proto__',
  'constructor',
  '😀'.repeat(64),
  'ß'.repeat(300),
  'x'.repeat(5_000),
);

const junk: fc.Arbitrary<unknown> = fc.oneof(
  nastyText,
  fc.constantFrom<unknown>(null, true, [], {}, 0, -0, -1, 1e308, 2 ** 53, 1.5, [null], [[[[]]]], {
    a: { b: { c: null } },
  }),
  fc.jsonValue({ maxDepth: 3 }),
  fc.integer({ min: 33, max: 3_000 }).map(nested),
);

export function anyJunk(): fc.Arbitrary<unknown> {
  return junk;
}

/** @returns values of the schema, most of which the service should accept. */
export function fitting(schema: Schema, name: string, depth = 0): fc.Arbitrary<unknown> {
  const known = byName[name];
  if (known) return known;
  if (/_url$|^redirect_uri$/.test(name)) return address;
  const choices = schema['enum'];
  if (Array.isArray(choices)) return fc.constantFrom(...choices);
  if ('const' in schema) return fc.constant(schema['const']);
  const types = [schema['type']].flat().map(String);
  const arbitraries = types.map((type) => ofType(type, schema, name, depth));
  const [first, ...others] = arbitraries;
  return first
    ? fc.oneof({ weight: 6, arbitrary: first }, ...others.map((arbitrary) => ({ weight: 1, arbitrary })))
    : junk;
}

function ofType(type: string, schema: Schema, name: string, depth: number): fc.Arbitrary<unknown> {
  const number = (key: string, fallback: number) => (typeof schema[key] === 'number' ? schema[key] : fallback);
  switch (type) {
    case 'object':
      return objectOf(schema, depth);
    case 'array':
      return fc.uniqueArray(fitting(partOf(schema, 'items'), name, depth + 1), {
        minLength: number('minItems', 0),
        maxLength: Math.min(number('maxItems', 5), 8),
      });
    case 'integer':
      return fc.integer({ min: number('minimum', -5), max: Math.min(number('maximum', 300), 2 ** 31) });
    case 'number':
      return fc.double({ min: number('minimum', -5), max: number('maximum', 1e6), noNaN: true });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    default:
      return textOf(schema, number('minLength', 0), number('maxLength', 60));
  }
}

function textOf(schema: Schema, min: number, max: number): fc.Arbitrary<string> {
  if (schema['format'] === 'date-time') return moment;
  const pattern = schema['pattern'];
  // fast-check has no look-ahead; names with such a pattern are in the table above.
  if (typeof pattern === 'string' && !pattern.includes('(?!') && !pattern.includes('[^')) {
    return fc.stringMatching(new RegExp(pattern));
  }
  return fc.string({ minLength: min, maxLength: Math.min(max, 60), unit: 'grapheme' });
}

function objectOf(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  const properties = Object.entries(partOf(schema, 'properties'));
  if (properties.length === 0 || depth > DEPTH_MAX) {
    return fc.dictionary(fc.string({ maxLength: 12 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 });
  }
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : [];
  const parts = Object.fromEntries(
    properties.map(([name, part]) => [
      name,
      fitting(typeof part === 'object' && part !== null ? { ...part } : {}, name, depth + 1),
    ]),
  );
  const optional = Object.keys(parts).filter((name) => !required.includes(name));
  const few = fc.subarray(optional, { maxLength: Math.min(4, optional.length) });
  const whole = fc.record(parts);
  // A few optional fields at a time, all of them now and then.
  return fc
    .tuple(whole, few, fc.nat(9))
    .map(([value, names, one]) =>
      one === 0
        ? value
        : Object.fromEntries([...required, ...names].flatMap((name) => (name in value ? [[name, value[name]]] : []))),
    );
}

function partOf(schema: Schema, key: string): Schema {
  const part = schema[key];
  return isObject(part) ? { ...part } : {};
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

function at(slot: string): fc.Arbitrary<string> {
  return fc.nat(999).map((index) => `{{${slot}:${index}}}`);
}
