/**
 * Whose store a visitor's device has. One rule for where they are sent, what is counted, and what a device is compared with.
 *
 * Safari on an iPad says word for word what Safari on a Mac says (iPadOS 13 and later, "desktop-class browsing"), and no
 * header tells them apart: such a visitor is taken for a desktop. Apps on an iPad do tell, and are believed.
 */
export type DeviceFamily = 'ios' | 'android' | 'other';

/** An app's browser on an iPad that calls itself a Macintosh: `Mobile/15E148`, `FBDV/iPad13,1`, `(iPad13,4; iOS 17_0`. */
const iPadInDisguise = /\bMobile\/|iPad\d|\biOS \d/;

export function familyOf(userAgent: string): DeviceFamily {
  // Windows phones name both of the others to be sent to mobile sites.
  if (userAgent.includes('Windows Phone') || userAgent.includes('IEMobile')) return 'other';
  if (/\b(?:iPhone|iPad|iPod)\b/.test(userAgent)) return 'ios';
  if (userAgent.includes('Macintosh')) return isDisguisedIpad(userAgent) ? 'ios' : 'other';
  if (/\bAndroid\b/.test(userAgent)) return 'android';
  // Apps that load a link with the system's HTTP client and no browser.
  if (userAgent.includes('CFNetwork/') && /\biOS\b|iPhone|iPad/.test(userAgent)) return 'ios';
  return 'other';
}

export function isDisguisedIpad(userAgent: string): boolean {
  return userAgent.includes('Macintosh') && iPadInDisguise.test(userAgent);
}

/** The system's version as in-app browsers say it: `FBSV/17.4`, `(iPad13,4; iPadOS 17_0_1;`. Empty where they don't. */
export function appSystemVersion(userAgent: string): string {
  const [, facebook, instagram] =
    /FBSV\/(\d[\d.]*)|\((?:iPhone|iPad|iPod)\d+,\d+; (?:iOS|iPadOS) (\d[\d_]*)/.exec(userAgent) ?? [];
  return facebook ?? instagram?.replaceAll('_', '.') ?? '';
}
