/** Apps that open links in their own web view, by the token they add to its user agent. */

/** The order matters: an app that is built on another one names both. */
const apps: readonly (readonly [name: string, token: RegExp])[] = [
  ['Threads', /\bBarcelona \d/],
  ['Instagram', /\bInstagram[ /]\d/],
  ['Messenger', /FBAN\/(?:Messenger|Orca)|FB_IAB\/(?:Orca|MESSENGER)/],
  ['Facebook', /\bFBA[NV]\/|\bFB_IAB\//],
  ['TikTok', /\bmusical_ly|\btrill_|BytedanceWebview|\bTikTok/i],
  ['LinkedIn', /\bLinkedIn(?:App)?\b/],
  ['X', /\bTwitter for iP|\bTwitterAndroid/],
  ['Snapchat', /\bSnapchat\//],
  ['Pinterest', /\[Pinterest\//],
  ['Google', /\bGSA\//],
  ['WeChat', /\bMicroMessenger\//],
  ['Line', /\bLine\/\d/],
  ['KakaoTalk', /\bKAKAOTALK\b/],
  ['Telegram', /\bTelegram-Android\//],
  ['Reddit', /\bReddit\//],
  ['Discord', /\bDiscord\/\d/],
  ['Viber', /\bViber\/\d/],
  ['NAVER', /\bNAVER\(inapp/],
  ['Teams', /\bTeamsMobile-/],
];

/** Null for a browser, and for an app that adds no token. */
export function inAppBrowser(userAgent: string): string | null {
  for (const [name, token] of apps) if (token.test(userAgent)) return name;
  return null;
}
