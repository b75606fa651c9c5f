/** Whether a user agent is a program's: a crawler, a library or a tool. One rule for redirects, statistics and matching. */
import { isbot } from 'isbot';

/** The web views of Facebook's and Instagram's apps, also without a browser's user agent in front, which look like no browser. */
const bareApp = /^(?:Dalvik\/\S+ \([^)]*\) )?\[FBAN\/|^(?:Instagram|Barcelona) \d[\d.]* (?:Android )?\(/;
const crawlerOfApp = /facebookexternalhit|facebot|facebookcatalog|meta-external/i;

/** Mail programs and Office check links before a person follows them, in the person's name. */
const office =
  /\bMicrosoft Outlook\b|\bms-office\b|\bMSOffice\b|^Microsoft Office\b|^(?:Mozilla\/\S+ )?Outlook-(?:iOS|Android)\//i;

/** Apple's HTTP library without a browser. Apps that name the phone load links for their user (device-family.ts). */
const bareLibrary = /^(?!Mozilla\/)(?!.*(?:\biOS\b|iPhone|iPad)).*\bCFNetwork\//;

export function isBotAgent(userAgent: string): boolean {
  if (bareApp.test(userAgent)) return crawlerOfApp.test(userAgent);
  return isbot(userAgent) || office.test(userAgent) || bareLibrary.test(userAgent);
}
