import { expect, test } from 'vitest';
import { chosenInstead, isFilledFrom, shownParameters, utmDraftOf } from './utm.ts';

const none = { utm_source: null, utm_medium: null, utm_campaign: null, utm_term: null, utm_content: null };
const mail = { ...none, utm_source: 'newsletter', utm_medium: 'email' };
const ads = { ...none, utm_source: 'google', utm_campaign: 'spring' };
const empty = utmDraftOf(undefined);

test('a chosen template fills its parameters and leaves the others as they were typed', () => {
  const draft = { ...empty, utm_source: 'typed', utm_term: 'shoes' };
  expect(chosenInstead(draft, undefined, mail)).toEqual({
    ...draft,
    utm_source: 'newsletter',
    utm_medium: 'email',
  });
});

test('another template, or none, takes away what the last one filled and nothing else', () => {
  const filled = { ...chosenInstead(empty, undefined, mail), utm_term: 'shoes' };
  expect(chosenInstead(filled, mail, ads)).toEqual({
    ...empty,
    utm_source: 'google',
    utm_campaign: 'spring',
    utm_term: 'shoes',
  });
  expect(chosenInstead({ ...filled, utm_medium: 'print' }, mail, undefined)).toEqual({
    ...empty,
    utm_medium: 'print',
    utm_term: 'shoes',
  });
});

test('a template counts as chosen only while the link has all of its parameters', () => {
  const filled = chosenInstead(empty, undefined, mail);
  expect(isFilledFrom(mail, { ...filled, utm_term: 'more' })).toBe(true);
  expect(isFilledFrom(mail, { ...filled, utm_medium: '' })).toBe(false);
  expect(shownParameters(mail)).toBe('newsletter · email');
});
