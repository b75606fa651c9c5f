/** What a campaign cost on a day. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { forbidden, type Rejection } from '#common/http/rejection.ts';

export const costFields = {
  campaign: Type.String({ minLength: 1, maxLength: 255, description: 'The campaign of the links, exactly.' }),
  day: Type.String({ minLength: 10, maxLength: 10, description: 'A date; in statistics, the day of their time zone.' }),
  amount: Type.String({ maxLength: 40, description: 'A decimal as text, not negative.' }),
  currency: Type.String({ minLength: 3, maxLength: 3, description: 'ISO 4217.' }),
};

export const costExample = { campaign: 'spring', day: '2026-11-20', amount: '120.5', currency: 'EUR' };

/** Whether the text is a date that exists. */
export function isPlainDate(text: string): boolean {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

/** A campaign may belong to several apps. */
export function refuseLimitedKey(caller: UserCaller): Rejection | null {
  if (!caller.key?.app_ids) return null;
  return forbidden('Costs belong to the whole organization, and this server key is limited to some of its apps.');
}
