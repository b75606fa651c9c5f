import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** Sources that hold Lua for Redis. */
const sources = execFileSync('git', ['grep', '-l', 'redis.call(', '--', '*.ts'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && !file.includes('.test.'));

test('scripts name every key that they touch, so that a server that shards by key can run them', () => {
  const unnamed: string[] = [];
  let calls = 0;
  for (const file of sources) {
    for (const [call, key = ''] of readFileSync(file, 'utf8').matchAll(/redis\.call\('\w+', ([^,)]+)/g)) {
      calls++;
      if (!/^(?:KEYS\[[^\]]+\]|key|version_key)$/.test(key)) unnamed.push(`${file}: ${call}`);
    }
  }
  expect(calls).toBeGreaterThan(20);
  expect(unnamed).toEqual([]);
});
