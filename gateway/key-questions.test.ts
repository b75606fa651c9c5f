import { setImmediate as turnEnd } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Answered, KeyQuestions, type Question } from './key-questions.ts';
import type { Chain } from './limit-chain.ts';

const level = { head: 'limit:events:', tail: '', isOfApp: true, limit: 100, windowMs: 60_000 };
const chain: Chain = { limitClass: 'events', levels: [level], shown: 0 };
const answered = (before: number) => ({ app: {}, windows: [before, 0] }) as unknown as Answered;

/** Queries that stay open until the test answers them. */
class Queries {
  readonly sent: { readonly question: Question; readonly requests: number; readonly answer: () => void }[] = [];
  writes = 0;
  readonly questions = new KeyQuestions({
    query: (question) =>
      new Promise((done) => {
        const { requests } = question;
        this.sent.push({ question, requests, answer: () => done(answered(requests)) });
      }),
    together: (send) => {
      this.writes++;
      send();
    },
  });
}

test('requests in one turn share a query, and each knows its position', async () => {
  const { questions, sent } = new Queries();
  const places = Array.from({ length: 3 }, () => questions.ask('lk_a', chain, 0).requests);
  await turnEnd();
  expect(places).toEqual([1, 2, 3]);
  expect(sent.map(({ requests }) => requests)).toEqual([3]);
});

test('a request that arrives while a query runs is answered by the next query, which is sent after the request arrived', async () => {
  const { questions, sent } = new Queries();
  const first = questions.ask('lk_a', chain, 0);
  await turnEnd();
  const late = [questions.ask('lk_a', chain, 1)];
  await turnEnd();
  late.push(questions.ask('lk_a', chain, 2));
  expect(sent).toHaveLength(1);
  expect(new Set(late).size).toBe(1);
  expect(late[0]?.question).not.toBe(first.question);
  sent[0]?.answer();
  expect((await first.question.answer)?.windows[0]).toBe(1);
  await turnEnd();
  expect(sent.map(({ requests }) => requests)).toEqual([1, 2]);
  sent[1]?.answer();
  expect((await late[0]?.question.answer)?.windows[0]).toBe(2);
});

test('a query does not wait for queries about other keys or limits; queries of one turn are sent together', async () => {
  const queries = new Queries();
  const { questions, sent } = queries;
  questions.ask('lk_a', chain, 0);
  await turnEnd();
  questions.ask('lk_b', chain, 0);
  questions.ask('lk_a', { ...chain, limitClass: 'match' }, 0);
  await turnEnd();
  expect(sent).toHaveLength(3);
  expect(queries.writes).toBe(2);
});

test('after an answer, the next request sends a new query', async () => {
  const { questions, sent } = new Queries();
  for (let round = 1; round <= 3; round++) {
    const { question } = questions.ask('lk_a', chain, 0);
    await turnEnd();
    expect(sent).toHaveLength(round);
    sent.at(-1)?.answer();
    await question.answer;
  }
});

test('requests of many networks share a query, up to a number of networks; the rest wait for the next', async () => {
  const { questions, sent } = new Queries();
  const chains = Array.from({ length: 250 }, () => ({ ...chain }));
  for (const one of [...chains, ...chains]) questions.ask('lk_a', one, 0);
  await turnEnd();
  expect(sent.map(({ question, requests }) => [question.groups.size, requests])).toEqual([[200, 200]]);
  sent[0]?.answer();
  await expect.poll(() => sent.length).toBe(2);
  sent[1]?.answer();
  await expect.poll(() => sent.length).toBe(3);
  expect(sent.reduce((sum, { requests }) => sum + requests, 0)).toBe(500);
});
