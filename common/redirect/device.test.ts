import { expect, test } from 'vitest';
import { Devices, type Platform, visitorDeviceOf } from './device.ts';

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
])('%s shows previews', (userAgent) => {
  expect(visitorDeviceOf(userAgent).isPreviewCrawler).toBe(true);
});

test('a device is determined once per user agent', () => {
  const devices = new Devices();
  expect(devices.of('curl/8.7.1')).toBe(devices.of('curl/8.7.1'));
});
