/**
 * Which store a visitor's device uses. One rule for their destination, for statistics, and for comparing devices.
 *
 * Safari on an iPad sends exactly what Safari on a Mac sends (iPadOS 13 and later, "desktop-class browsing"), and no
 * header distinguishes them: such a visitor is treated as a desktop. Apps on an iPad do identify it, and are believed.
 */
export type DeviceFamily = 'ios' | 'android' | 'other';

/**
 * A browser on an iPad that calls itself a Macintosh: `Mobile/15E148`, `FBDV/iPad13,1`, `(iPad13,4; iOS 17_0`, and
 * those of vendors other than Apple, which have other names on a Mac.
 */
const iPadInDisguise = /\bMobile\/|iPad\d|\biOS \d|\b(?:CriOS|FxiOS|EdgiOS|OPiOS|OPT)\//;

/** Facebook's apps without a browser's user agent: `[FBAN/FB4A;…;FBPN/com.facebook.katana;…]`, `[FBAN/FBIOS;…;FBSN/iOS;…]`. */
const facebookOnAndroid = /\bFB(?:AN|_IAB)\/(?:FB4A|Orca-Android|EMA|PAAA|\w*ForAndroid)\b|\bFBPN\/com\./;
const facebookOnIos = /\bFBAN\/(?:FBIOS|\w*ForiOS)\b|\bFBSN\/(?:iOS|iPadOS|iPhone OS)\b/;

export function familyOf(userAgent: string): DeviceFamily {
  // Windows phones also name iPhone and Android in order to get mobile sites.
  if (userAgent.includes('Windows Phone') || userAgent.includes('IEMobile')) return 'other';
  if (/\b(?:iPhone|iPad|iPod)(?:\b|\d)/.test(userAgent)) return 'ios';
  if (userAgent.includes('Macintosh')) return isDisguisedIpad(userAgent) ? 'ios' : 'other';
  if (/\bAndroid\b/.test(userAgent)) return 'android';
  if (facebookOnAndroid.test(userAgent)) return 'android';
  if (facebookOnIos.test(userAgent)) return 'ios';
  // Apps that load a link with the system's HTTP client and no browser.
  if (userAgent.includes('CFNetwork/') && /\biOS\b|iPhone|iPad/.test(userAgent)) return 'ios';
  return 'other';
}

export function isDisguisedIpad(userAgent: string): boolean {
  return userAgent.includes('Macintosh') && iPadInDisguise.test(userAgent);
}
