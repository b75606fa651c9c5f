import { expect, test } from 'vitest';
import { deviceOf } from '#common/click-device.ts';
import { readUserAgent } from '#common/user-agent.ts';
import { Devices, isProgram, type Platform, visitorDeviceOf } from './device.ts';

const webkit = 'AppleWebKit/605.1.15 (KHTML, like Gecko)';
const iphone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X)';
const mac = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)';
const android =
  'Mozilla/5.0 (Linux; Android 14; SM-S918B Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko)';

test.each<[string, Platform, string]>([
  ['Safari on an iPhone', 'ios', `${iphone} ${webkit} Version/17.4 Mobile/15E148 Safari/604.1`],
  ['Chrome on an iPhone', 'ios', `${iphone} ${webkit} CriOS/126.0.6478.35 Mobile/15E148 Safari/604.1`],
  [
    'Instagram on an iPhone',
    'ios',
    `${iphone} ${webkit} Mobile/21E219 Instagram 330.0.3.29.84 (iPhone14,7; iOS 17_4; de_DE; de; scale=3.00; 1170x2532; 595420331)`,
  ],
  [
    'Facebook on an iPhone',
    'ios',
    `${iphone} ${webkit} Mobile/21E219 [FBAN/FBIOS;FBAV/463.0.0.38.107;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;FBSV/17.4]`,
  ],
  [
    'TikTok on an iPhone',
    'ios',
    `${iphone} ${webkit} Mobile/21E219 musical_ly_34.1.0 JsSdk/2.0 NetType/WIFI Channel/App Store ByteLocale/de Region/DE BytedanceWebview/d8a21c6`,
  ],
  ['LinkedIn on an iPhone', 'ios', `${iphone} ${webkit} Mobile/21E219 [LinkedInApp]/9.29.7325`],
  [
    'WeChat on an iPhone',
    'ios',
    `${iphone} ${webkit} Mobile/21E219 MicroMessenger/8.0.49(0x18003137) NetType/WIFI Language/zh_CN`,
  ],
  ['the Google app on an iPhone', 'ios', `${iphone} ${webkit} GSA/317.0.634488990 Mobile/15E148 Safari/604.1`],
  ['Pinterest on an iPhone', 'ios', `${iphone} ${webkit} Mobile/15E148 [Pinterest/iOS]`],
  [
    'an iPod',
    'ios',
    `Mozilla/5.0 (iPod touch; CPU iPhone OS 15_8 like Mac OS X) ${webkit} Version/15.6 Mobile/15E148 Safari/604.1`,
  ],
  [
    'an old iPad',
    'ios',
    `Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X) ${webkit} Version/12.1.2 Mobile/15E148 Safari/604.1`,
  ],
  ['an app on an iPad that calls itself a Macintosh', 'ios', `${mac} ${webkit} Mobile/15E148`],
  [
    'Facebook on such an iPad',
    'ios',
    `${mac} ${webkit} Mobile/21E219 [FBAN/FBIOS;FBAV/463.0;FBDV/iPad13,16;FBMD/iPad;FBSN/iPadOS;FBSV/17.4]`,
  ],
  [
    'Instagram on such an iPad',
    'ios',
    `${mac} ${webkit} Instagram 330.0 (iPad13,4; iOS 17_4; en_US; scale=2.00; 750x1334)`,
  ],
  ['the Google app on such an iPad', 'ios', `${mac} ${webkit} GSA/317.0.634488990 Mobile/15E148 Safari/604.1`],
  ['Safari on a Mac, or on an iPad: word for word the same', 'other', `${mac} ${webkit} Version/17.4 Safari/605.1.15`],
  ['Chrome on a Mac', 'other', `${mac} AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36`],
  ['WeChat on a Mac', 'other', `${mac} ${webkit} MicroMessenger/6.8.0(0x16080000) MacWechat/3.8.7(0x13080712)`],
  [
    'Chrome on Android',
    'android',
    'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36',
  ],
  ['Firefox on Android', 'android', 'Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0'],
  [
    'Instagram on Android',
    'android',
    `${android} Version/4.0 Chrome/126.0 Mobile Safari/537.36 Instagram 334.0.0.42.95 Android (34/14; 450dpi; 1080x2115; samsung; SM-S918B; dm3q; qcom; de_DE; 607938412)`,
  ],
  [
    'Facebook on Android',
    'android',
    `${android} Version/4.0 Chrome/126.0 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/463.0.0.56.84;]`,
  ],
  [
    'TikTok on Android',
    'android',
    `${android} Version/4.0 Chrome/126.0 Mobile Safari/537.36 trill_340103 JsSdk/1.0 NetType/WIFI AppName/trill ByteLocale/de`,
  ],
  ['LinkedIn on Android', 'android', `${android} Version/4.0 Chrome/126.0 Mobile Safari/537.36 [LinkedInApp]`],
  [
    'WeChat on Android',
    'android',
    `${android} Version/4.0 Chrome/116.0 Mobile Safari/537.36 XWEB/1160117 MMWEBSDK/20240404 MicroMessenger/8.0.49.2600(0x2800313D) WeChat/arm64 NetType/WIFI`,
  ],
  [
    'the Google app on Android',
    'android',
    `${android} Version/4.0 Chrome/126.0 Mobile Safari/537.36 GSA/15.24.33.28.arm64`,
  ],
  [
    'Samsung Internet on a tablet',
    'android',
    'Mozilla/5.0 (Linux; Android 13; SM-X910) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 Chrome/121.0 Safari/537.36',
  ],
  [
    'a Windows phone that names the others',
    'other',
    'Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0 Mobile Safari/537.36 Edge/15.15063',
  ],
  [
    'Edge on Windows',
    'other',
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0',
  ],
  ['Firefox on Linux', 'other', 'Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0'],
  [
    'a Chromebook',
    'other',
    'Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  ],
  [
    'a television',
    'other',
    'Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) Version/7.0 TV Safari/537.36',
  ],
  ['curl', 'other', 'curl/8.7.1'],
  ['nothing', 'other', ''],
])('%s is %s and shows no preview', (_, platform, userAgent) => {
  expect(visitorDeviceOf(userAgent)).toMatchObject({ platform, isPreviewCrawler: false });
});

test.each([
  'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
  `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0`,
  'Twitterbot/1.0',
  'LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)',
  'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
  'Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)',
  'TelegramBot (like TwitterBot)',
  'WhatsApp/2.23.20.0 A',
  'Mozilla/5.0 (compatible; Pinterestbot/1.0; +http://www.pinterest.com/bot.html)',
  'Mozilla/5.0 (compatible; redditbot/1.0; +http://www.reddit.com/feedback)',
  'Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com',
  'Mozilla/5.0 (compatible; vkShare; +http://vk.com/dev/Share)',
  'facebookexternalhit/1.1;line-poker/1.0',
  'Mozilla/5.0 (compatible; Bluesky Cardyb/1.1; mailto:support@bsky.app)',
  'Mastodon/4.3.0 (http.rb/5.2.0; +https://mastodon.social/)',
  'Iframely/1.3.1 (+https://iframely.com/docs/about)',
  'Mattermost-Bot/1.1',
  'Nextcloud Server Crawler',
  'Nextcloud-Server-Crawler/31.0.5',
  'Mozilla/5.0 (compatible; ZulipURLPreview/5.0; +https://zulip.example)',
  'SummalyBot/5.1.0',
  'Mozilla/5.0 (compatible; SummalyBot/5.2.1; +https://misskey.example)',
  'Misskey/2024.10.1 (https://misskey.example)',
  'Sharkey/2024.8.2 (https://sharkey.example)',
  'Iceshrimp.NET/2024.1 (+https://ice.example/)',
  'Lemmy/0.19.5; +https://lemmy.example',
  'PieFed/1.0; +https://piefed.example',
  'http.rb/5.1.1 (Mastodon/4.2.10; +https://mastodon.social/)',
  'http.rb/5.2.0 (Mastodon/4.3.0+glitch; +https://glitch.example/) Bot',
  'Mastodon/4.4.0 (http.rb/5.3.1; +https://mastodon.example/)',
  'Hometown/4.2.10+hometown-1.1.1 (http.rb/5.2.0; +https://hometown.example/)',
  'Pleroma 2.7.0-0-g1234; https://pleroma.example <admin@pleroma.example>; Bot',
  'Akkoma 3.13.2-0-g1234; https://akkoma.example <admin@akkoma.example>; Bot',
  "Friendica 'Yellow Archangel' 2024.08-1576; https://friendica.example",
  'gotosocial/0.17.0 (+https://gts.example)',
  'PeerTube/6.3.0 (+https://tube.example)',
  '(Pixelfed/0.12.4; +https://pixelfed.example)',
  'Mbin/1.7.0 (+https://mbin.example/agent)',
  'Synapse (bot; +https://github.com/matrix-org/synapse)',
  'Discourse Forum Onebox v3.2.0',
  'Rocket.Chat/6.10.0',
  'Mozilla/5.0 (compatible; January/1.0; +https://github.com/revoltchat/january)',
  'Wire LinkPreview Bot',
  'Quora Link Preview/1.0 (http://www.quora.com)',
  'ClickUpLinkUnfurler/1.0',
])('%s shows previews', (userAgent) => {
  expect(visitorDeviceOf(userAgent).isPreviewCrawler).toBe(true);
  expect(deviceOf(userAgent).isBot).toBe(true);
});

test.each([
  `${iphone} ${webkit} Mobile/21E219 Mastodon/2024.3`,
  `${android} Version/4.0 Chrome/126.0 Mobile Safari/537.36 Misskey/1.0`,
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Mattermost/5.9.0 Chrome/126.0 Electron/30 Safari/537.36',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Rocket.Chat.Electron/4.1 Chrome/126.0 Safari/537.36',
  'Mozilla/5.0 (Android) Nextcloud-Talk v20.0.1',
])('%s, an app of people, shows no preview', (userAgent) => {
  expect(visitorDeviceOf(userAgent).isPreviewCrawler).toBe(false);
});

const fb4a = (carrier: string) =>
  `[FBAN/FB4A;FBAV/455.0.0.44.88;FBBV/563123456;FBDM/{density=2.625,width=1080,height=2131};FBLC/de_DE;FBRV/0;FBCR/${carrier};FBMF/samsung;FBBD/samsung;FBPN/com.facebook.katana;FBDV/SM-A515F;FBSV/13;FBOP/1;FBCA/arm64-v8a:;]`;

test.each<[string, Platform, string]>([
  ...['T-Mobile', 'Verizon', 'AT&T', 'o2 - de', '', 'Vodafone.de'].map((one): [string, Platform, string] => [
    'Facebook',
    'android',
    fb4a(one),
  ]),
  [
    'Messenger',
    'android',
    '[FBAN/Orca-Android;FBAV/1;FBCR/x;FBPN/com.facebook.orca;FBDV/Pixel 8;FBSV/14;FBOP/1;FBCA/arm64-v8a:;]',
  ],
  ['Facebook', 'android', '[FBAN/EMA;FBBV/1;FBAV/391.0.0.10.118;FBDV/Redmi_9;FBSV/10;FBCX/okhttp3;FBDM/{density=2.0}]'],
  ['Facebook', 'ios', '[FBAN/FBIOS;FBAV/400;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;FBSV/17.4;FBSS/3;FBLC/de_DE;FBOP/5]'],
  ['Messenger', 'ios', '[FBAN/MessengerForiOS;FBAV/480.0;FBDV/iPhone16,2;FBSN/iOS;FBSV/18.6;FBSS/3;FBLC/en_US;FBOP/5]'],
  ['Instagram', 'ios', 'Instagram 300.0 (iPhone14,5; iOS 17_4; de_DE; de; scale=3.00; 1170x2532; 1)'],
  [
    'Instagram',
    'android',
    'Instagram 309.1 Android (33/13; 420dpi; 1080x2131; samsung; SM-G991B; o1s; exynos2100; en_US; 1)',
  ],
])('%s is a person on %s in the app, also without a browser before it: %s', (app, platform, userAgent) => {
  const device = visitorDeviceOf(userAgent);
  expect([device.platform, isProgram(device, userAgent)]).toEqual([platform, false]);
  expect(deviceOf(userAgent)).toMatchObject({ platform, browser: app, isBot: false });
  expect(readUserAgent(userAgent).os_version.length).toBeGreaterThan(0);
});

test.each([
  'facebookexternalhit/1.1;FBAN/FB4A',
  'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Win64; x64; Trident/7.0; .NET4.0C; Microsoft Outlook 16.0.4266; ms-office; MSOffice 16)',
  'Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0.17328; Pro)',
  'Mozilla/4.0 (compatible; ms-office; MSOffice 16)',
  'Microsoft Office Word 2014',
  'Outlook-iOS/2.0',
  'Outlook-Android/2.0',
  'MyApp/1.0 CFNetwork/1490.0.4 Darwin/23.2.0',
  'Safari/19617.1.17.11.12 CFNetwork/1490.0.4 Darwin/23.3.0',
  'com.apple.WebKit.Networking/8617 CFNetwork/1490 Darwin/23.3.0',
  'Mail/3774.400 CFNetwork/1490.0.4 Darwin/23.3.0 (x86_64)',
])('%s is a program in redirects and in statistics', (userAgent) => {
  expect(isProgram(visitorDeviceOf(userAgent), userAgent)).toBe(true);
  expect(deviceOf(userAgent).isBot).toBe(true);
});

test('a device is determined once per user agent', () => {
  const devices = new Devices();
  expect(devices.of('curl/8.7.1')).toBe(devices.of('curl/8.7.1'));
});
