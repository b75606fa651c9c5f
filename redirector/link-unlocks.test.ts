import { expect, test } from 'vitest';
import { LinkUnlocks, unlockLimits } from './link-unlocks.ts';

test('an address that guesses the passwords of many links is limited, and does not limit others', async () => {
  const unlocks = new LinkUnlocks(() => 1_790_000_000_000);
  const guess = (link: number, ip: string) => unlocks.check(`lnk_${link}`, 'no hash', ip, 'guess');
  for (let link = 0; link < unlockLimits.perAddressAtAllMax; link++) expect(await guess(link, '8.8.8.8')).toBe('wrong');
  for (let link = 100; link < 120; link++) expect(await guess(link, '8.8.8.8')).toBe('limited');
  expect(await guess(100, '8.8.4.4')).toBe('wrong');
});
