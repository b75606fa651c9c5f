import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { LinkCache } from '#common/links/link-cache.ts';
import type { LinkSnapshot } from '#common/links/link-snapshot.ts';
import { Devices, visitorDeviceOf } from '#common/redirect/device.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { KnownLinks } from './known-links.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

function heapMegabytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed / 1_048_576;
}

/** Links where everything is fresh and every code of the host is this link. */
function knownLinks(link: LinkSnapshot): KnownLinks {
  const entry = { checkedMs: 0, isUsed: false };
  const apps = { keep: () => ({ ...entry, value: testApp, bytes: 300 }), isCurrent: () => true };
  const links = {
    keep: (key: string) =>
      key.startsWith(`${testApp.host}/`)
        ? { ...entry, value: link, bytes: 2 * JSON.stringify(link).length + 300 }
        : undefined,
    isCurrent: () => true,
  };
  return new KnownLinks({ apps, links } as unknown as LinkCache);
}

/** A string like one from a socket: flat, with its own memory. */
const text = (start: string, chars: number) => Buffer.from(start.padEnd(chars, 'x')).toString();

/** Memory that these visits retain, in MB. */
function heldAfter(visits: number, visit: (n: number) => unknown): number {
  const before = heapMegabytes();
  for (let n = 0; n < visits; n++) visit(n);
  return heapMegabytes() - before;
}

test('a link is found by its host in any case, with and without a port', () => {
  const known = knownLinks(testLink);
  for (const header of ['myapp.localhost', 'MyApp.LocalHost', 'myapp.localhost:8080', 'myapp.localhost:1']) {
    expect(known.find(header, '/summer', 0), header).toBeDefined();
    expect(known.find(header, '/summer', 0)).toBe(known.find(header, '/summer', 0));
  }
});

test('a link is not cached for a Host header that no browser sends', () => {
  const known = knownLinks(testLink);
  for (const tail of [':', ':x', ':80x', ':123456', ':80:80', ': 80', `:${'0'.repeat(14_000)}`]) {
    expect(known.find(`myapp.localhost${tail}`, '/summer', 0), tail).toBeUndefined();
  }
});

test('a link is not cached under an encoding of its code that no browser sends', () => {
  const known = knownLinks(testLink);
  expect(known.find('myapp.localhost', '/caf%C3%A9', 0)).toBeDefined();
  expect(known.find('myapp.localhost', '/summer/', 0)).toBeDefined();
  for (const path of [
    '/summer//',
    '/%73ummer/',
    '/%73ummer',
    '/caf%c3%a9',
    '/cafe%CC%81',
    '/café',
    '/a%2Fb',
    '/robots.txt',
    '/a//b',
  ])
    expect(known.find('myapp.localhost', path, 0), path).toBeUndefined();
});

test('Host headers with long made-up ports take no memory', () => {
  const known = knownLinks(testLink);
  expect(heldAfter(1_500, (n) => known.find(text(`myapp.localhost:${n}`, 14_000), '/summer', 0))).toBeLessThan(10);
  expect(known.find('myapp.localhost', '/summer', 0)).toBeDefined();
});

test('the memory of cached links is bounded, and an evicted link is cached again with its next visit', {
  tags: ['slow'],
}, () => {
  const long = 'https://example.com/'.padEnd(8_000, 'x');
  const known = knownLinks({ ...testLink, fallback_url: long, ios_url: long, android_url: long, og_image_url: long });
  const visitor = { ip: '127.0.0.1', user_agent: 'curl', language: '' };
  const countries = { countryOf: () => '' };
  const visit = (n: number) =>
    known.find(`myapp.localhost:${n}`, '/summer', 0)?.decide(visitorDeviceOf('curl'), visitor, 0, countries);
  const all = Array.from({ length: 3_000 }, (_, n) => n);
  expect(heldAfter(all.length, visit)).toBeLessThan(60);
  expect(all.every(visit)).toBe(true);
});

test('the memory of links with rules is also bounded, whichever of their variants are visited', {
  tags: ['slow'],
}, () => {
  const variants = Array.from({ length: 10 }, (_, n) => ({
    url: `https://v${n}.example/${'x'.repeat(780)}`,
    percent: 10,
  }));
  const known = knownLinks({ ...testLink, rules: [{ variants }, { variants }] });
  const countries = { countryOf: () => '' };
  const agents = ['curl', 'Mozilla/5.0 (iPhone)', 'Mozilla/5.0 (Linux; Android 14)'].map(visitorDeviceOf);
  const visit = (n: number) => {
    const plan = known.find(`myapp.localhost:${n}`, '/summer', 0);
    for (let at = 0; at < 60; at++)
      plan?.decide(
        agents[at % 3] ?? visitorDeviceOf(''),
        { ip: `192.0.2.${at}`, user_agent: '', language: '' },
        0,
        countries,
      );
  };
  expect(heldAfter(500, visit)).toBeLessThan(30);
});

test('user agents take a limited amount of memory, however long they are', { tags: ['slow'] }, () => {
  const devices = new Devices();
  expect(heldAfter(1_500, (n) => devices.of(text(`Mozilla/5.0 (iPhone) ${n}`, 14_000)))).toBeLessThan(10);
  expect(heldAfter(19_000, (n) => devices.of(text(`Mozilla/5.0 (iPhone) ${n}`, 1_024)))).toBeLessThan(35);
  expect(devices.of(text('Mozilla/5.0 (iPhone)', 14_000))).toMatchObject({ platform: 'ios' });
});
