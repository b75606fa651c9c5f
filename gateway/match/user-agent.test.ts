import { expect, test } from 'vitest';
import { readUserAgent } from './user-agent.ts';

const mac = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)';

test.each<[string, number[], string, string, [number, number] | null]>([
  [`${mac} GSA/310.0.628394116 Mobile/15E148 Safari/604.1`, [], 'ipad', '', null],
  [
    `${mac} Mobile/15E148 Instagram 330.0.3 (iPad13,4; iPadOS 17_0_1; en_US; en; scale=2.00; 1640x2360; 1)`,
    [17, 0, 1],
    'ipad13,4',
    'en_US',
    [820, 1180],
  ],
  [`${mac} Mobile/21E219 [FBAN/FBIOS;FBDV/iPad13,1;FBMD/iPad;FBSN/iPadOS;FBSV/17.4]`, [17, 4], 'ipad13,1', '', null],
])(
  'an app on an iPad that calls itself a Macintosh is an iPad: %s',
  (agent, os_version, device_model, language, screen) => {
    expect(readUserAgent(agent)).toEqual({
      family: 'ios',
      maybeIpad: false,
      os_version,
      device_model,
      language,
      screen,
    });
  },
);

test('a Windows phone that names the others is neither', () => {
  expect(readUserAgent('Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) Edge/15').family).toBe(
    'other',
  );
});
