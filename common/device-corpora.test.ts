/**
 * Public lists of user agents against what we take for a program. crawler-user-agents (MIT) has examples of crawlers and
 * tools, each with its source; user-agents (BSD-2-Clause) and top-user-agents (MIT) have what browsers of people sent.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import crawlers from 'crawler-user-agents';
import top from 'top-user-agents';
import { expect, test } from 'vitest';
import { deviceOf } from './click-device.ts';
import { packageRoot } from './process/paths.ts';

// The package itself draws from this file at random.
const visitorsFile = join(packageRoot(), 'node_modules', 'user-agents', 'dist', 'user-agents.json');
const visitors = JSON.parse(readFileSync(visitorsFile, 'utf8')) as { userAgent: string }[];

const percent = (part: number, whole: number) => (100 * part) / whole;

test('at least 99.5 % of known crawlers and tools are not counted as people', () => {
  const agents = [...new Set(crawlers.flatMap(({ instances }) => instances))];
  const missed = agents.filter((agent) => !deviceOf(agent).isBot);
  const rate = percent(agents.length - missed.length, agents.length);
  console.log(`${agents.length} agents of crawlers, ${missed.length} taken for people: ${rate.toFixed(2)} %`);
  expect(agents.length).toBeGreaterThan(2_000);
  expect(rate, missed.join('\n')).toBeGreaterThanOrEqual(99.5);
});

test('at most 0.2 % of browsers of people are taken for programs, and each has a platform', () => {
  const agents = [...new Set([...visitors.map(({ userAgent }) => userAgent), ...top])];
  const called = agents.filter((agent) => deviceOf(agent).isBot);
  const rate = percent(called.length, agents.length);
  console.log(`${agents.length} agents of people, ${called.length} taken for programs: ${rate.toFixed(2)} %`);
  expect(agents.length).toBeGreaterThan(900);
  expect(rate, called.join('\n')).toBeLessThanOrEqual(0.2);
  const unknown = agents.filter((agent) => deviceOf(agent).platform === 'other');
  console.log(`without a platform: ${unknown.length}`);
  expect(percent(unknown.length, agents.length), unknown.join('\n')).toBeLessThanOrEqual(0.5);
});
