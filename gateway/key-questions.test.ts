import { setImmediate as turnEnd } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Answered, KeyQuestions, type Question } from './key-questions.ts';

const subject = { head: 'limit:events:', tail: '', isOfApp: true };
const answered = (count: number) => ({ app: {}, window: { count, resetMs: 0 } }) as Answered;

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
  const places = Array.from({ length: 3 }, () => questions.ask('lk_a', subject, 0).requests);
  await turnEnd();
  expect(places).toEqual([1, 2, 3]);
  expect(sent.map(({ requests }) => requests)).toEqual([3]);
});

test('a request that arrives while a query runs is answered by the next query, which is sent after the request arrived', async () => {
  const { questions, sent } = new Queries();
  const first = questions.ask('lk_a', subject, 0);
  await turnEnd();
  const late = [questions.ask('lk_a', subject, 1)];
  await turnEnd();
  late.push(questions.ask('lk_a', subject, 2));
  expect(sent).toHaveLength(1);
  expect(new Set(late).size).toBe(1);
  expect(late[0]).not.toBe(first);
  sent[0]?.answer();
  expect((await first.answer)?.window.count).toBe(1);
  await turnEnd();
  expect(sent.map(({ requests }) => requests)).toEqual([1, 2]);
  sent[1]?.answer();
  expect((await late[0]?.answer)?.window.count).toBe(2);
});

test('a query does not wait for queries about other keys or limits; queries of one turn are sent together', async () => {
  const queries = new Queries();
  const { questions, sent } = queries;
  questions.ask('lk_a', subject, 0);
  await turnEnd();
  questions.ask('lk_b', subject, 0);
  questions.ask('lk_a', { ...subject, head: 'limit:match:' }, 0);
  await turnEnd();
  expect(sent).toHaveLength(3);
  expect(queries.writes).toBe(2);
});

test('after an answer, the next request sends a new query', async () => {
  const { questions, sent } = new Queries();
  for (let round = 1; round <= 3; round++) {
    const question = questions.ask('lk_a', subject, 0);
    await turnEnd();
    expect(sent).toHaveLength(round);
    sent.at(-1)?.answer();
    await question.answer;
  }
});
