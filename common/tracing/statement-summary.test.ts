import { expect, test } from 'vitest';
import { summaryOf } from './statement-summary.ts';

test.each([
  ['SELECT a FROM links WHERE id = $1', 'SELECT links'],
  ['\n  SELECT i FROM unnest($1::text[]) AS code JOIN link_codes USING (code)', 'SELECT link_codes'],
  ['SELECT 1 FROM apps a JOIN links l ON TRUE JOIN apps b ON TRUE', 'SELECT apps links'],
  ['SELECT 1 FROM a, x JOIN b JOIN c JOIN d JOIN e', 'SELECT a b c d'],
  ['INSERT INTO fences SELECT 1', 'INSERT fences'],
  ['INSERT INTO apps(id) VALUES ($1)', 'INSERT'],
  ['UPDATE ONLY "apps" SET name = $1', 'UPDATE apps'],
  [`SELECT * FROM (SELECT 'hush' FROM clicks)`, 'SELECT clicks'],
  [`SELECT set_config('app.secret', 'hush', true)`, 'SELECT'],
  ['BEGIN', 'BEGIN'],
  ['', 'STATEMENT'],
])('%s is shown as %s', (statement, summary) => {
  expect(summaryOf(statement)).toBe(summary);
});
