import { expect, test } from 'vitest';
import { changed, draftOf } from './link-draft.ts';

const draft = { ...draftOf(null), destination: 'https://www.example.com/summer?size=2', path: '/summer?size=2' };

test('the in-app path follows a changed destination only while it is the path of that destination', () => {
  expect(changed(draft, { destination: 'www.example.com/late' }).path).toBe('/late');
  expect(changed({ ...draft, path: '/product/42' }, { destination: 'www.example.com/late' }).path).toBe('/product/42');
  expect(changed({ ...draft, path: '' }, { destination: 'www.example.com/late' }).path).toBe('');
  expect(changed(draft, { path: '/elsewhere' }).path).toBe('/elsewhere');
  expect(changed(draft, { title: 'Late' })).toEqual({ ...draft, title: 'Late' });
});
