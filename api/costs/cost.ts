/** The cost of a campaign on a day. */
import { Type } from 'typebox';

export const costFields = {
  campaign: Type.String({
    minLength: 1,
    maxLength: 255,
    format: 'visible',
    description: 'The campaign, spelled exactly as in the links.',
  }),
  day: Type.String({ minLength: 10, maxLength: 10, description: 'The date, in the time zone of the statistics.' }),
  amount: Type.String({ maxLength: 40, description: 'A non-negative decimal, as a string.' }),
  currency: Type.String({ minLength: 3, maxLength: 3, description: 'ISO 4217.' }),
};

export const costExample = { campaign: 'spring', day: '2026-11-20', amount: '120.5', currency: 'EUR' };
