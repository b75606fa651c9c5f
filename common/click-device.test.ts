import { expect, test } from 'vitest';
import { deviceOf } from '#common/click-device.ts';
import { userAgentCorpus } from '#common/testing/user-agent-corpus.ts';
import { readUserAgent } from '#common/user-agent.ts';

const mac = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)';

test.each([
  [`${mac} GSA/310.0.628394116 Mobile/15E148 Safari/604.1`, '', 'iPad'],
  [
    `${mac} Mobile/15E148 Instagram 330.0.3 (iPad13,4; iPadOS 17_0_1; en_US; en; scale=2.00; 1640x2360; 1)`,
    '17.0.1',
    'iPad13,4',
  ],
  [`${mac} Mobile/21E219 [FBAN/FBIOS;FBDV/iPad13,1;FBMD/iPad;FBSN/iPadOS;FBSV/17.4]`, '17.4', 'iPad13,1'],
])(
  'an app on an iPad that calls itself a Macintosh is counted as the platform it is redirected as: %s',
  (agent, os_version, device_model) => {
    expect(deviceOf(agent)).toMatchObject({ platform: 'ios', os: 'iOS', os_version, device_model });
  },
);

test('a click is stored with what matching reads from its user agent, and with its in-app browser', () => {
  for (const { agent } of userAgentCorpus()) {
    const { family, os_version, device_model, app } = readUserAgent(agent);
    if (family === 'other') continue;
    const { browser, ...stored } = deviceOf(agent);
    expect(stored, agent).toMatchObject({ platform: family, os_version: os_version.join('.'), device_model });
    if (app !== null) expect(browser, agent).toBe(app);
  }
});

test('a Mac, and Safari on an iPad, which says the same, are counted as desktops', () => {
  expect(deviceOf(`${mac} Version/17.4 Safari/605.1.15`)).toMatchObject({ platform: 'desktop', os: 'macOS' });
});
