import { expect, test } from 'vitest';
import { quote, readStatement } from './statement.ts';

test.each([
  ['SELECT 1', 'select', '', true],
  ['  -- a comment; with FORMAT CSV\n(SELECT 1) UNION ALL SELECT 2 FORMAT JSONEachRow', 'select', 'JSONEachRow', true],
  ['with 1 as x select x format JSON settings max_threads=1;', 'select', 'JSON', true],
  ['select \'a; b\' /* ; */, `;`, ";"', 'select', '', true],
  ["select 'it\\'s; FORMAT CSV'", 'select', '', true],
  ["select ''';' from t", 'select', '', true],
  ['select 1; select 2', 'select', '', false],
  ["select ';'; drop table t", 'select', '', false],
  ['select 1;; -- done', 'select', '', true],
  ['INSERT INTO t FORMAT JSONEachRow {"a":";"} ; {"b":1}', 'insert', 'JSONEachRow', true],
  ['insert into t values (1); drop table t', 'insert', '', false],
  ['CREATE TABLE t (format String)', 'other', 'String', true],
])('a query text is read as the engine reads it: %s', (sql, kind, format, isSingle) => {
  expect(readStatement(sql)).toMatchObject({ kind, format, isSingle });
});

test('an INSERT is split where its settings or its format begin', () => {
  const sql = 'INSERT INTO t (a) SETTINGS x = 1 FORMAT RowBinary\n\u0001';
  const { clauseAt, formatEndsAt } = readStatement(sql);
  expect([sql.slice(0, clauseAt), sql.slice(clauseAt, formatEndsAt)]).toEqual([
    'INSERT INTO t (a) ',
    'SETTINGS x = 1 FORMAT RowBinary',
  ]);
});

test('a quoted text is one literal, whatever it contains', () => {
  expect(quote("a'b\\c\0")).toBe("'a\\'b\\\\c\\0'");
  expect(readStatement(`select ${quote("'; drop table t; --\\")}`).isSingle).toBe(true);
});
