import { expect, test } from 'vitest';
import type { FigureRow } from '#clickhouse/queries/series.ts';
import { totalsOf } from './metrics.ts';

test('there are never more unique clicks than clicks, although the former are an estimate', () => {
  const rows = [{ f_clicks: 4_020 }, { f_unique_clicks: 4_039 }] as FigureRow[];
  expect(totalsOf(rows)).toMatchObject({ clicks: 4_020, unique_clicks: 4_020 });
  expect(totalsOf([{ f_clicks: 9, f_unique_clicks: 7 }] as FigureRow[])).toMatchObject({ unique_clicks: 7 });
});
