import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { reencryptMail } from '#api/admin/secret-rotation.ts';
import { hashPassword } from '#api/auth/password.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { whenQuiet } from '#testing/busy-machine.ts';
import { type SmtpServerForTest, smtpServerForTest } from '#testing/smtp-server.ts';
import { attemptsMax, Mailer } from './mailer.ts';
import { type SendOutcome, type SmtpSettings, smtpSender } from './smtp.ts';

const login = { user: 'signpost', password: 'p@ss/word' };
const good = 'seven unrelated heavy words';
let smtp: SmtpServerForTest;
let api: ApiForTest;
let owner: Member;
let certificate: { key: string; cert: string };
let addresses = 0;

beforeAll(async () => {
  const extensions = [{ name: 'subjectAltName' as const, altNames: [{ type: 7 as const, ip: '127.0.0.1' }] }];
  const made = await generate([{ name: 'commonName', value: '127.0.0.1' }], { keyType: 'ec', extensions });
  certificate = { key: made.private, cert: made.cert };
  smtp = await smtpServerForTest({ certificate, login });
  api = await apiForTest(
    {
      SMTP_URL: `smtp://signpost:${encodeURIComponent(login.password)}@127.0.0.1:${smtp.port}`,
      MAIL_FROM: 'Signpost <links@example.com>',
    },
    undefined,
    undefined,
    { ca: certificate.cert, stepMs: 2_000 },
  );
  owner = await api.member();
});
afterAll(async () => {
  await api?.stop();
  await smtp?.stop();
});

const newAddress = () => `mailed-${addresses++}@example.com`;
const mailsTo = (address: string) => smtp.mails.filter(({ to }) => to.includes(address));
const tokenIn = (text = '') => /#([\w-]{43})\s/.exec(text)?.[1] ?? '';

async function invite(email: string, more: object = {}, by = owner) {
  const { status, body } = await by.call('POST', '/invitations', { email, role: 'member', ...more });
  expect(status, JSON.stringify(body)).toBe(201);
  // Only the mail has the link.
  expect([body.token, body.url]).toEqual([undefined, undefined]);
  return body as { id: string; mail: string };
}

interface MailRow {
  readonly state: string;
  readonly attempts: number;
  readonly failure: string | null;
  readonly content_ciphertext: string | null;
}

async function rowOf(recipient: string): Promise<MailRow | undefined> {
  const sql = 'SELECT state, attempts, failure, content_ciphertext FROM mails WHERE recipient = $1 ORDER BY id DESC';
  return (await api.db.query<MailRow>(sql, [recipient]))[0];
}

const makeDue = (recipient: string) =>
  api.db.execute('UPDATE mails SET due_at = now() WHERE recipient = $1', [recipient]);

const quiet = { warn: () => undefined, info: () => undefined };

/** A mailer of another process, or with a different mail server. */
function otherMailer(settings: Partial<SmtpSettings> = {}): Mailer {
  const base = { host: '127.0.0.1', port: smtp.port, isSecure: false, allowsPlain: false, ...login };
  const send = smtpSender({ ...base, from: 'links@example.com', ...settings }, { ca: certificate.cert, stepMs: 500 });
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  return new Mailer({ db: api.db, encryption, send, log: quiet, maySend: () => true });
}

test('an invited person gets the link by mail, over TLS, in the language of the request, and joins with it', async () => {
  const email = newAddress();
  const made = await invite(email, { language: 'de' });
  expect(made.mail).toBe('waiting');
  await api.mailer.look();
  const [mail, second] = mailsTo(email);
  expect(second).toBeUndefined();
  expect(mail?.isEncrypted).toBe(true);
  expect(mail?.from).toBe('links@example.com');
  expect(mail?.headers.get('auto-submitted')).toBe('auto-generated');
  expect(mail?.text).toContain('lädt Sie ein');
  const { data } = (await owner.call('GET', '/invitations')).body;
  expect(data.find(({ id }: { id: string }) => id === made.id).mail).toBe('sent');
  const accepted = await api.call('', 'POST', '/auth/invitations/accept', {
    token: tokenIn(mail?.text),
    password: good,
  });
  expect(accepted.status).toBe(201);
  const { access_token } = (await api.call('', 'POST', '/auth/login', { email, password: good })).body;
  expect((await api.call(access_token, 'GET', '/me')).body.user.email_verified).toBe(true);
});

test('the link is stored encrypted until the mail is sent, and then deleted', async () => {
  const email = newAddress();
  await invite(email);
  const before = await rowOf(email);
  expect(before?.content_ciphertext).toMatch(/^test\./);
  const stored = JSON.stringify(await api.db.query('SELECT row_to_json(m)::text AS row FROM mails m'));
  // Still readable after SECRET_KEY is rotated.
  const rotated = new Encryption(parseSecretKeys(`${newSecretKey('next')},${api.secretKey}`));
  expect(await reencryptMail(api.db, rotated)).toBeGreaterThanOrEqual(1);
  expect((await rowOf(email))?.content_ciphertext).toMatch(/^next\./);
  await api.db.execute('UPDATE mails SET content_ciphertext = $2 WHERE recipient = $1', [
    email,
    before?.content_ciphertext,
  ]);
  await api.mailer.look();
  expect(await rowOf(email)).toMatchObject({ state: 'sent', content_ciphertext: null });
  expect(stored).not.toContain(tokenIn(mailsTo(email)[0]?.text));
});

test('a withdrawn invitation is not mailed', async () => {
  const email = newAddress();
  const { id } = await invite(email);
  expect((await owner.call('DELETE', `/invitations/${id}`)).status).toBe(200);
  await api.mailer.look();
  expect([mailsTo(email).length, (await rowOf(email))?.failure]).toEqual([0, 'withdrawn']);
});

test('only one of several processes sends a mail, and a process that dies during an attempt uses up that attempt', async () => {
  const email = newAddress();
  await invite(email);
  await Promise.all([api.mailer.look(), otherMailer().look(), otherMailer().look()]);
  expect(mailsTo(email)).toHaveLength(1);
  const dead = newAddress();
  await invite(dead);
  // The state that a process leaves behind when it dies between claiming a mail and sending it.
  await api.db.execute(`UPDATE mails SET attempts = 1, due_at = now() + interval '2 minutes' WHERE recipient = $1`, [
    dead,
  ]);
  await api.mailer.look();
  expect(mailsTo(dead)).toHaveLength(0);
  await makeDue(dead);
  await api.mailer.look();
  expect([mailsTo(dead).length, (await rowOf(dead))?.state]).toEqual([1, 'sent']);
});

test('an attempt whose lease has ended changes nothing any more', async () => {
  const email = newAddress();
  await invite(email);
  let answer: ((outcome: SendOutcome) => void) | undefined;
  const send = () =>
    new Promise<SendOutcome>((done) => {
      answer = done;
    });
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  const slow = new Mailer({ db: api.db, encryption, send, log: quiet, maySend: () => true });
  const looking = slow.look();
  await expect.poll(() => answer).toBeDefined();
  await makeDue(email);
  await api.mailer.look();
  answer?.({ kind: 'refused', reason: 'recipient_refused' });
  await looking;
  expect([mailsTo(email).length, await rowOf(email)]).toMatchObject([1, { state: 'sent', attempts: 2 }]);
});

test('a mail that the server rejects permanently is given up; after a temporary error it is retried, at most eight times', async () => {
  const [refused, busy] = [newAddress(), newAddress()];
  smtp.refuse({ code: 550, message: 'no such user' });
  await invite(refused);
  await api.mailer.look();
  expect(await rowOf(refused)).toMatchObject({ state: 'failed', attempts: 1, failure: 'recipient_refused' });
  smtp.refuse({ code: 451, message: 'try later' });
  await invite(busy);
  for (let attempt = 1; attempt <= attemptsMax; attempt++) {
    await makeDue(busy);
    await api.mailer.look();
    const state = attempt < attemptsMax ? 'waiting' : 'failed';
    expect(await rowOf(busy)).toMatchObject({ state, attempts: attempt, failure: 'busy' });
  }
  smtp.refuse(null);
  await makeDue(busy);
  await api.mailer.look();
  expect(mailsTo(busy)).toHaveLength(0);
  expect((await rowOf(busy))?.content_ciphertext).toBeNull();
});

test.each([
  ['an unknown certificate', {}, 'tls'],
  ['a wrong password', { password: 'wrong' }, 'login'],
  ['a refused connection', { port: 9 }, 'unreachable'],
] as const)('after %s, the mail waits for another attempt', async (name, settings, failure) => {
  const email = newAddress();
  await invite(email);
  const base = { host: '127.0.0.1', port: smtp.port, isSecure: false, allowsPlain: false, ...login };
  const trust = name === 'an unknown certificate' ? {} : { ca: certificate.cert };
  const send = smtpSender({ ...base, from: 'links@example.com', ...settings }, { ...trust, stepMs: 2_000 });
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  await new Mailer({ db: api.db, encryption, send, log: quiet, maySend: () => true }).look();
  expect(await rowOf(email)).toMatchObject({ state: 'waiting', attempts: 1, failure });
  await makeDue(email);
  await api.mailer.look();
  expect(mailsTo(email)).toHaveLength(1);
});

test('a hanging server costs no more than the time limit, and the mail is sent when the server responds again', async () => {
  const email = newAddress();
  await invite(email);
  smtp.hang(true);
  const started = performance.now();
  await otherMailer().look();
  expect(performance.now() - started).toBeLessThan(whenQuiet(10_000));
  expect(await rowOf(email)).toMatchObject({ state: 'waiting', attempts: 1, failure: 'timeout' });
  smtp.hang(false);
  await makeDue(email);
  await api.mailer.look();
  expect(mailsTo(email)).toHaveLength(1);
});

test('without STARTTLS neither mail nor password is sent, unless the operator allows it', async () => {
  const plain = await smtpServerForTest();
  const email = newAddress();
  await invite(email);
  const settings = { port: plain.port, user: '', password: '' };
  await otherMailer(settings).look();
  expect([plain.mails.length, (await rowOf(email))?.failure]).toEqual([0, 'tls']);
  await makeDue(email);
  await otherMailer({ ...settings, allowsPlain: true }).look();
  expect(plain.mails.map(({ to, isEncrypted }) => [to, isEncrypted])).toEqual([[[email], false]]);
  await plain.stop();
});

test('mail that has expired is not sent, and rows are deleted after some days', async () => {
  const [late, old] = [newAddress(), newAddress()];
  for (const email of [late, old]) await invite(email);
  await api.db.execute('UPDATE mails SET expires_at = created_at - make_interval(days => 1) WHERE recipient = $1', [
    late,
  ]);
  await api.db.execute(`UPDATE mails SET created_at = now() - interval '9 days' WHERE recipient = $1`, [old]);
  await api.mailer.look();
  expect([mailsTo(late).length, (await rowOf(late))?.failure]).toEqual([0, 'expired']);
  await api.mailer.forget();
  expect(await rowOf(old)).toBeUndefined();
  expect(await rowOf(late)).toBeDefined();
});

test('mail that is dated a year ahead is sent, and does not count against its recipient', async () => {
  const email = newAddress();
  for (let n = 0; n < 6; n++) {
    await invite(email);
    await api.db.execute(
      `UPDATE mails SET created_at = now() + interval '1 year', due_at = now() + interval '1 year', expires_at = now() + interval '2 years' WHERE recipient = $1`,
      [email],
    );
  }
  await api.mailer.look();
  expect(mailsTo(email)).toHaveLength(1);
});

test('a mail that expired by the clock of Postgres alone is not sent, and waits in case that clock is wrong', async () => {
  const email = newAddress();
  await invite(email);
  await api.db.execute(`UPDATE ingest.deletion_clock SET reached = now() - interval '800 days'`);
  await api.db.execute(
    `UPDATE mails SET created_at = now() - interval '800 days', expires_at = now() - interval '799 days' WHERE recipient = $1`,
    [email],
  );
  await api.mailer.forget();
  await api.mailer.look();
  expect([mailsTo(email).length, (await rowOf(email))?.state]).toEqual([0, 'waiting']);
  // The clock is corrected.
  await api.db.execute(`UPDATE mails SET expires_at = now() + interval '1 day' WHERE recipient = $1`, [email]);
  await api.mailer.look();
  await api.db.execute('UPDATE ingest.deletion_clock SET reached = now()');
  expect(mailsTo(email)).toHaveLength(1);
});

test('an address gets at most five mails of a kind per hour; beyond that, the invitation is created without a mail', async () => {
  const email = newAddress();
  const states: string[] = [];
  for (let n = 0; n < 7; n++) states.push((await invite(email)).mail);
  expect(states).toEqual([...Array.from({ length: 5 }, () => 'waiting'), 'limited', 'limited']);
  await api.mailer.look();
  expect(mailsTo(email).length).toBeLessThanOrEqual(5);
});

async function personWithPassword(old = 'correct horse battery staple') {
  const person = await api.member('member', owner.organization_id);
  const email = newAddress();
  await api.db.execute('UPDATE users SET email = $2, password_hash = $3 WHERE id = $1', [
    person.user_id,
    email,
    await hashPassword(old),
  ]);
  return { ...person, email };
}

const ask = (email: string) => api.call('', 'POST', '/auth/password-reset', { email });
const confirm = (token: string, password = good) =>
  api.call('', 'POST', '/auth/password-reset/confirm', { token, password });

test('a single-use link replaces a forgotten password and ends every login of the account', async () => {
  const person = await personWithPassword();
  const old = await api.call('', 'POST', '/auth/login', {
    email: person.email,
    password: 'correct horse battery staple',
  });
  expect((await ask(person.email.toUpperCase())).status).toBe(202);
  await api.mailer.look();
  const [mail] = mailsTo(person.email);
  const token = tokenIn(mail?.text);
  expect(mail?.text).toContain('/password-reset#');
  const weak = await confirm(token, 'password1234');
  expect([weak.status, weak.body.error.details.field]).toEqual([400, 'password']);
  const statuses = (await Promise.all([confirm(token), confirm(token)])).map(({ status }) => status);
  expect(statuses.sort()).toEqual([200, 404]);
  expect((await api.call(old.body.access_token, 'GET', '/me')).status).toBe(401);
  const again = await api.call('', 'POST', '/auth/login', { email: person.email, password: good });
  expect(again.status).toBe(200);
  const factor = `INSERT INTO user_totp (user_id, secret_ciphertext, confirmed_at, created_at) VALUES ($1, '', now(), now())`;
  await api.db.execute(factor, [person.user_id]);
  const alone = await api.call('', 'POST', '/auth/login', { email: person.email, password: good });
  expect([alone.status, alone.body.error.details.reason]).toEqual([401, 'totp_required']);
  const log = (await owner.call('GET', `/audit-log?actor_id=${person.user_id}`)).body.data;
  expect(log.map(({ action }: { action: string }) => action)).toContain('resetPassword');
});

test('a request for an address without an account gets the same answer and no mail', async () => {
  const [unknown, disabled] = [newAddress(), await personWithPassword()];
  await api.db.execute('UPDATE users SET disabled_at = now() WHERE id = $1', [disabled.user_id]);
  const known = await personWithPassword();
  const answers = [await ask(unknown), await ask(disabled.email), await ask(known.email)];
  expect(answers.map(({ status, body }) => [status, body])).toEqual(answers.map(() => [202, { accepted: true }]));
  expect([await rowOf(unknown), await rowOf(disabled.email)]).toEqual([undefined, undefined]);
  expect(await rowOf(known.email)).toBeDefined();
});

test('an address gets at most five links per hour, and links that are not mailed are not stored', async () => {
  const person = await personWithPassword();
  for (let n = 0; n < 7; n++) expect((await ask(person.email)).status).toBe(202);
  const sql = 'SELECT FROM password_resets WHERE user_id = $1';
  expect(await api.db.query(sql, [person.user_id])).toHaveLength(5);
});

test('a link expires after an hour, and when the password changes or the account is disabled', async () => {
  const linkOf = async (email: string) => {
    await ask(email);
    await api.mailer.look();
    return tokenIn(mailsTo(email).at(-1)?.text);
  };
  const [late, changed, disabled] = [
    await personWithPassword(),
    await personWithPassword(),
    await personWithPassword(),
  ];
  const [lateLink, changedLink, disabledLink] = [
    await linkOf(late.email),
    await linkOf(changed.email),
    await linkOf(disabled.email),
  ];
  await api.db.execute('UPDATE users SET password_hash = $2 WHERE id = $1', [changed.user_id, await hashPassword('x')]);
  await api.db.execute('UPDATE users SET disabled_at = now() WHERE id = $1', [disabled.user_id]);
  expect([(await confirm(changedLink)).status, (await confirm(disabledLink)).status]).toEqual([404, 404]);
  api.advance(60 * 60_000 + 1);
  expect((await confirm(lateLink)).status).toBe(404);
  api.advance(-60 * 60_000 - 1);
  expect((await confirm(lateLink)).status).toBe(200);
});

test('while nothing may be sent, mail waits, and none expires', async () => {
  const email = newAddress();
  await invite(email);
  await api.db.execute(`UPDATE mails SET expires_at = now() - interval '1 hour' WHERE recipient = $1`, [email]);
  const send = async (): Promise<SendOutcome> => ({ kind: 'sent' });
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  await new Mailer({ db: api.db, encryption, send, log: quiet, maySend: () => false }).look();
  expect(await rowOf(email)).toMatchObject({ state: 'waiting', attempts: 0 });
});
