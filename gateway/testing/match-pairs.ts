/** The test cases of gateway/match/pairs.test.ts. */
import type { ClickFields, DeviceFields } from '#common/match/signals.ts';
import type { CorpusLine } from '#common/testing/user-agent-corpus.ts';

export interface Pair {
  readonly kind: 'device' | 'time';
  readonly group: string;
  readonly what: string;
  readonly click: ClickFields;
  readonly device: DeviceFields;
  /** Whether click and device are really the same phone. */
  readonly isSame: boolean;
  /** The best result that the rules can reach, if that is less than the truth. */
  readonly isFound?: boolean;
  /** Time between click and open. */
  readonly minutes?: number;
  /** The device's address, if it is not the click's. */
  readonly deviceIp?: string;
  /** Other people's clicks from the same address, on other links. */
  readonly neighbours?: readonly ClickFields[];
}

const ip = '203.0.113.9';

/** Every line of the corpus with a known truth, compared with its own phone and with others. */
export function devicePairs(corpus: readonly CorpusLine[]): Pair[] {
  return [...corpus.flatMap(corpusPairs), ...modelPairs(), ...languagePairs(), ...reversePairs()];
}

function corpusPairs({ seen, what, family, system, model, agent }: CorpusLine): Pair[] {
  if (system === '' || (family !== 'ios' && family !== 'android' && !agent.includes('Macintosh'))) return [];
  const isIpad = /iPad/.test(what) || family === 'other';
  const platform = family === 'android' ? 'android' : 'ios';
  const own =
    platform === 'android'
      ? model || 'SM-X999Z'
      : model || (isIpad ? 'iPad13,4' : /iPod/.test(what) ? 'iPod9,1' : 'iPhone15,4');
  const click = { ip, user_agent: agent, language: 'en-US' };
  const device: DeviceFields = { platform, os_version: system, device_model: own, language: 'en-US' };
  const pair = (group: string, to: string, isSame: boolean, more: Partial<Pair> & { device: DeviceFields }): Pair => ({
    ...{ kind: 'device', group, what: `${seen} ${what}, ${to}`, click, isSame },
    ...more,
  });
  // An iPhone that requests desktop pages looks like an iPad.
  const isDisguised = /desktop mode/.test(what);
  const pairs = [
    pair(`corpus, ${platform}`, 'its own phone', true, {
      device,
      ...(isDisguised ? { device: { ...device, device_model: 'iPad13,4' } } : {}),
    }),
  ];
  const other: DeviceFields =
    platform === 'ios'
      ? { ...device, platform: 'android', os_version: '14', device_model: 'Pixel 8' }
      : { ...device, platform: 'ios', os_version: '17.5', device_model: 'iPhone15,2' };
  pairs.push(pair('another platform', 'a phone of the other platform', false, { device: other }));
  const knowsModel = model !== '' && agent.includes(model);
  if (knowsModel) {
    const another = platform === 'ios' ? (isIpad ? 'iPad13,18' : 'iPhone15,3') : 'Pixel 7a';
    pairs.push(pair('another model', 'another model', false, { device: { ...device, device_model: another } }));
  }
  return pairs;
}

const safari = (system: string, version: string) =>
  `Mozilla/5.0 (iPhone; CPU iPhone OS ${system} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/${version} Mobile/15E148 Safari/604.1`;
const instagram = (model: string) =>
  `Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/23D127 Instagram 420.0.0.39.76 (${model}; iOS 26_3; en_US; en; scale=3.00; 1170x2532; IABMV/1; 9) Safari/604.1`;
const webView = (model: string, version = '14') =>
  `Mozilla/5.0 (Linux; Android ${version}; ${model} Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/129.0 Mobile Safari/537.36`;
const reduced =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/152.0.0.0 Mobile Safari/537.36';
const linkedIn =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.31.8841';
const bareWebView =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148';

function modelPairs(): Pair[] {
  const rows: readonly (readonly [click: string, device: string, isSame: boolean])[] = [
    ['iPhone15,2', 'iPhone15,2', true],
    ['iPhone15,2', 'iPhone 14 Pro', true],
    ['iPhone14,5', 'iPhone 13', true],
    ['iPhone14,6', 'iPhone SE', true],
    ['iPhone18,3', 'iPhone 17', true],
    ['iPhone15,2', 'iPhone14,5', false],
    ['iPhone15,2', 'iPhone 15 Pro', false],
    ['iPhone14,5', 'iPhone 13 Pro', false],
    ['iPhone18,1', 'iPhone 17 Pro Max', false],
    ['iPhone15,2', 'iPad13,4', false],
  ];
  const androids: typeof rows = [
    ['SM-S911B', 'SM-S911B', true],
    ['SM-S911B', 'Galaxy S23', true],
    ['SM-S911B', 'samsung SM-S911B', true],
    ['SM-G991B', 'Galaxy S21 5G', true],
    ['SM-S938B', 'Galaxy S25 Ultra', true],
    ['CPH2449', 'OnePlus 11 5G', true],
    ['2201117TG', 'Redmi Note 11', true],
    ['Pixel 8', 'Google Pixel 8', true],
    ['SM-S911B', 'Pixel 8', false],
    ['SM-S911B', 'SM-S918B', false],
    ['SM-S911B', 'Galaxy S24', false],
    ['SM-A146B', 'Galaxy A14', false],
    ['Pixel 8', 'Pixel 8 Pro', false],
    ['CPH2449', 'SM-S911B', false],
    ['2201117TG', 'CPH2449', false],
    ['moto g54 5G', 'Pixel 8', false],
  ];
  const pair = (
    platform: 'ios' | 'android',
    agent: string,
    os_version: string,
    [click, device, isSame]: (typeof rows)[0],
  ): Pair => ({
    ...{ kind: 'device', group: 'models by name', what: `${click} and ${device}`, isSame },
    click: { ip, user_agent: agent, language: 'en-US' },
    device: { platform, os_version, device_model: device, language: 'en-US' },
  });
  return [
    ...rows.map((row) => pair('ios', instagram(row[0]), '26.3', row)),
    ...androids.map((row) => pair('android', webView(row[0]), '14', row)),
  ];
}

function languagePairs(): Pair[] {
  const rows: readonly (readonly [string, string, readonly string[] | null])[] = [
    ['de-DE,de;q=0.9', 'de_DE', null],
    ['de-DE,de;q=0.9', 'en_DE', null],
    ['de-DE,de;q=0.9', 'en-DE', ['de-DE', 'en-DE']],
    ['de-DE,de;q=0.9,en;q=0.8', 'en_US', null],
    ['ja-JP,ja;q=0.9', 'en_JP', ['ja-JP']],
    ['zh-CN,zh-Hans;q=0.9', 'zh-Hans_CN', null],
    ['iw-IL,iw;q=0.9', 'he_IL', null],
    ['nb-NO,nb;q=0.9', 'no_NO', null],
    ['pt-PT,pt;q=0.9', 'pt_BR', null],
    ['', 'en_US', null],
  ];
  const pair = (
    platform: 'ios' | 'android',
    user_agent: string,
    [header, language, languages]: (typeof rows)[0],
  ): Pair => ({
    ...{
      kind: 'device',
      group: 'languages',
      what: `${platform}: ${header || 'no header'} and ${language} ${languages ?? ''}`,
      isSame: true,
    },
    click: { ip, user_agent, language: header },
    device: {
      ...{ platform, os_version: platform === 'ios' ? '26.2' : '15', language, languages },
      device_model: platform === 'ios' ? 'iPhone16,1' : 'Pixel 9',
    },
  });
  return rows.flatMap((row) => [pair('ios', safari('18_7', '26.2'), row), pair('android', reduced, row)]);
}

/** An SDK that sends only its web view's user agent. */
function reversePairs(): Pair[] {
  const rows: readonly (readonly [string, string, boolean])[] = [
    [safari('18_7', '26.2'), bareWebView, true],
    [safari('18_7', '18.7.2'), bareWebView, true],
    [linkedIn, bareWebView, true],
    [instagram('iPhone15,2'), bareWebView, true],
    [safari('17_5', '17.5'), bareWebView, false],
    [safari('16_7_12', '16.6'), bareWebView, false],
    [webView('Pixel 8'), bareWebView, false],
    [safari('17_5', '17.5'), bareWebView.replace('18_7', '17_5'), true],
    [safari('17_5', '17.5'), bareWebView.replace('18_7', '16_2'), false],
  ];
  return rows.map(([click, device, isSame], n) => ({
    ...{ kind: 'device', group: 'a web view’s user agent alone', what: `${n + 1}`, isSame },
    click: { ip, user_agent: click, language: 'en-US' },
    device: { platform: 'ios', language: 'en-US', user_agent: device },
  }));
}

const phone: DeviceFields = { platform: 'ios', os_version: '26.2', device_model: 'iPhone15,2', language: 'en-US' };
const pixel: DeviceFields = { platform: 'android', os_version: '14', device_model: 'Pixel 8', language: 'en-US' };

/** Times, addresses and neighbours. */
export function timeCases(): Pair[] {
  const of = (group: string, what: string, isSame: boolean, more: Partial<Pair>): Pair => ({
    ...{ kind: 'time', group, what, isSame, device: phone },
    click: { ip, user_agent: safari('18_7', '26.2'), language: 'en-US' },
    ...more,
  });
  const click = (user_agent: string, address = ip): ClickFields => ({ ip: address, user_agent, language: 'en-US' });
  const ages = [0.2, 1, 10, 29, 59, 61, 119, 121, 240, 350];
  const v6 = '2001:db8:1:2:3:4:5:6';
  return [
    ...ages.map((minutes) =>
      of('age, Safari', `${minutes} minutes`, true, { minutes, isFound: minutes <= DOUBT_MINUTES }),
    ),
    ...ages.map((minutes) =>
      of('age, Instagram', `${minutes} minutes`, true, {
        minutes,
        click: click(instagram('iPhone15,2')),
        device: { ...phone, os_version: '26.3' },
      }),
    ),
    ...ages.map((minutes) =>
      of('age, behind a /64', `${minutes} minutes`, true, {
        minutes,
        isFound: minutes <= DOUBT_MINUTES,
        click: click(reduced, v6),
        device: pixel,
      }),
    ),
    ...ages.map((minutes) =>
      of('age, a click without details', `${minutes} minutes`, true, {
        minutes,
        click: click(reduced),
        device: pixel,
        isFound: minutes < FACELESS_FOUND_MINUTES,
      }),
    ),
    of('age, Safari', 'after the window', true, { minutes: 361, isFound: false }),
    of('updates', 'a minor update', true, { minutes: 40, device: { ...phone, os_version: '26.3' } }),
    of('updates', 'a patch', true, { minutes: 20, device: { ...phone, os_version: '26.2.1' } }),
    of('updates', 'a minor update before the freeze', true, {
      minutes: 30,
      click: click(safari('17_4_1', '17.4')),
      device: { ...phone, os_version: '17.5' },
    }),
    of('updates', 'an older system than the click’s', false, { device: { ...phone, os_version: '26.1' } }),
    of('updates', 'another major version', false, { device: { ...phone, os_version: '18.7' } }),
    of('updates', 'a frozen version and a phone that never had it', false, {
      click: click(linkedIn),
      device: { ...phone, os_version: '18.5' },
    }),
    of('addresses', 'the same /64', true, {
      click: click(safari('18_7', '26.2'), v6),
      deviceIp: '2001:db8:1:2:ffff::1',
    }),
    of('addresses', 'another /64', true, {
      click: click(safari('18_7', '26.2'), v6),
      deviceIp: '2001:db8:1:3::1',
      isFound: false,
    }),
    of('addresses', 'IPv6 at the click, IPv4 at the open', true, {
      click: click(safari('18_7', '26.2'), v6),
      deviceIp: ip,
      isFound: false,
    }),
    of('addresses', 'a relay at the click', true, {
      click: click(safari('18_7', '26.2'), '172.224.226.4'),
      deviceIp: ip,
      isFound: false,
    }),
    of('addresses', 'a relay at both', true, { click: click(safari('18_7', '26.2'), '172.224.226.4'), isFound: false }),
    of('addresses', 'another address', true, { deviceIp: '203.0.113.10', isFound: false }),
    of('addresses', 'its own network, shared with others', true, {
      click: click(safari('18_7', '26.2'), '192.168.1.20'),
      neighbours: [click(webView('Pixel 8'), '192.168.1.20'), click(webView('SM-S911B'), '192.168.1.20')],
    }),
    of('neighbours', 'another phone of the other platform', true, { neighbours: [click(webView('Pixel 8'))] }),
    of('neighbours', 'two phones of the other platform', true, {
      neighbours: [click(webView('Pixel 8')), click(webView('SM-S911B'))],
    }),
    of('neighbours', 'an older iPhone', true, { neighbours: [click(safari('17_5', '17.5'))] }),
    of('neighbours', 'five phones', true, {
      neighbours: ['Pixel 8', 'SM-S911B', 'CPH2449', 'SM-A546B', 'Pixel 7'].map((model) => click(webView(model))),
      isFound: false,
    }),
    of('neighbours', 'the same phone clicked another link', true, {
      neighbours: [click(safari('18_7', '26.2'))],
      isFound: false,
    }),
    of('neighbours', 'Instagram distinguishes one iPhone from three', true, {
      click: click(instagram('iPhone15,2')),
      device: { ...phone, os_version: '26.3' },
      neighbours: [click(instagram('iPhone14,5')), click(instagram('iPhone16,1'))],
    }),
    of('neighbours', 'a click without details, beside another phone’s', true, {
      click: click(reduced),
      device: pixel,
      neighbours: [click(safari('17_5', '17.5'))],
      isFound: false,
    }),
  ];
}

/** Maximum age at which a click is accepted that reveals only its version, or is behind a /64 and reveals nothing. */
const DOUBT_MINUTES = 180;
/** Maximum age at which a click that reveals nothing is accepted, alone behind an IPv4 address. */
const FACELESS_FOUND_MINUTES = 60;
