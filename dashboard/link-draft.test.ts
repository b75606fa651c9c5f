import { expect, test } from 'vitest';
import { changed, changesOf, draftOf } from './link-draft.ts';

const draft = { ...draftOf(null), destination: 'https://www.example.com/summer?size=2', path: '/summer?size=2' };

test('the in-app path follows a changed destination only while it is the path of that destination', () => {
  expect(changed(draft, { destination: 'www.example.com/late' }).path).toBe('/late');
  expect(changed({ ...draft, path: '/product/42' }, { destination: 'www.example.com/late' }).path).toBe('/product/42');
  expect(changed({ ...draft, path: '' }, { destination: 'www.example.com/late' }).path).toBe('');
  expect(changed(draft, { path: '/elsewhere' }).path).toBe('/elsewhere');
  expect(changed(draft, { title: 'Late' })).toEqual({ ...draft, title: 'Late' });
});

test('a text with outer spaces is sent only if it was changed, and then without them', () => {
  const before = { ...draft, campaign: ' spring ', title: 'Early ', path: '/a ' };
  expect(changesOf(before, before)).toEqual({});
  expect(changesOf({ ...before, title: ' Late ', path: ' /b' }, before)).toEqual({ title: 'Late', path: '/b' });
  expect(changesOf({ ...before, campaign: 'spring', title: ' ' }, before)).toEqual({ campaign: 'spring', title: null });
  expect(changesOf({ ...draft, title: ' ' }, draft)).toEqual({});
});
