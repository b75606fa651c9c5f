import { expect, test } from 'vitest';
import type { FigureRow } from '#clickhouse/queries/series.ts';
import { returnOn } from './campaign-costs.ts';
import { totalsOf } from './metrics.ts';

test('there are never more unique clicks than clicks, although unique clicks are an estimate', () => {
  const row = (figures: Partial<FigureRow>): FigureRow => ({ slot: 0, grp: '', ...figures });
  expect(totalsOf([row({ f_clicks: 4_020 }), row({ f_unique_clicks: 4_039 })])).toMatchObject({
    clicks: 4_020,
    unique_clicks: 4_020,
  });
  expect(totalsOf([row({ f_clicks: 9, f_unique_clicks: 7 })])).toMatchObject({ unique_clicks: 7 });
});

test('a cost that rounds to zero in the requested currency has no return', () => {
  const cost = [
    { currency: 'KWD', amount: '0' },
    { currency: 'EUR', amount: '2' },
  ];
  expect(returnOn(cost, [{ currency: 'EUR', amount: '3' }])).toEqual([{ currency: 'EUR', ratio: 1.5 }]);
});
