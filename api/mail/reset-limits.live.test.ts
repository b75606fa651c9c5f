/** Who may use up the mails with links that set a new password. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashPassword } from '#api/auth/password.ts';
import { mailContext } from '#api/mail-outbox.ts';
import { type ApiForTest, apiForTest } from '#api/testing/running-api.ts';
import { Encryption, parseSecretKeys } from '#common/encryption.ts';

let api: ApiForTest;

beforeAll(async () => {
  // Nothing is sent: the mails stay in the outbox.
  api = await apiForTest({ SMTP_URL: 'smtp://signpost:secret@127.0.0.1:9', MAIL_FROM: 'links@example.com' });
});
afterAll(() => api.stop());

async function personWithPassword(password = 'correct horse battery staple') {
  const person = await api.member();
  const sql = 'UPDATE users SET password_hash = $2 WHERE id = $1';
  await api.db.execute(sql, [person.user_id, await hashPassword(password)]);
  return { email: `${person.user_id}@example.com` };
}

/** The token of the link in the last mail. */
async function lastTokenOf(email: string): Promise<string> {
  const [mail] = await api.db.query<{ id: string; content_ciphertext: string }>(
    'SELECT id, content_ciphertext FROM mails WHERE recipient = $1 ORDER BY created_at DESC LIMIT 1',
    [email],
  );
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  const { url } = JSON.parse(encryption.decrypt(mail?.content_ciphertext ?? '', mailContext(mail?.id ?? '')));
  return url.split('#')[1];
}

async function askFrom(ip: string, email: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-forwarded-proto': 'https', 'x-forwarded-for': ip };
  const body = JSON.stringify({ email });
  const { status } = await fetch(`${api.url}/auth/password-reset`, { method: 'POST', headers, body });
  expect(status).toBe(202);
}

const owedTo = async (email: string) => (await api.db.query('SELECT FROM mails WHERE recipient = $1', [email])).length;

test('strangers in one network cannot use up the mails of a person who asks from another', async () => {
  const { email } = await personWithPassword();
  for (let n = 0; n < 6; n++) await askFrom('203.0.113.7', email);
  expect(await owedTo(email)).toBe(5);
  expect(api.mailer.counters.limited).toBeGreaterThanOrEqual(1);
  await askFrom('198.51.100.7', email);
  expect(await owedTo(email)).toBe(6);
});

test('strangers in many networks leave a person a link that works, and a mail where they have logged in before', async () => {
  const password = 'correct horse battery staple';
  const { email } = await personWithPassword(password);
  const at = { 'content-type': 'application/json', 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.44' };
  const body = JSON.stringify({ email, password });
  expect((await fetch(`${api.url}/auth/login`, { method: 'POST', headers: at, body })).status).toBe(200);
  for (let n = 0; n < 18; n++) await askFrom(`203.0.113.${n}`, email);
  expect(await owedTo(email)).toBe(15);
  await askFrom('192.0.2.44', email);
  expect(await owedTo(email)).toBe(16);
  const token = await lastTokenOf(email);
  api.advance(50 * 60_000);
  await askFrom('198.51.100.99', email);
  api.advance(20 * 60_000);
  expect(await owedTo(email)).toBe(16);
  const chosen = { token, password: 'seven unrelated heavy words' };
  expect((await api.call('', 'POST', '/auth/password-reset/confirm', chosen)).status).toBe(200);
  api.advance(-70 * 60_000);
});

test('beyond the limit of a day, one mail an hour is still sent', async () => {
  const { email } = await personWithPassword();
  for (let n = 0; n < 22; n++) {
    await askFrom('203.0.113.7', email);
    const earlier = `UPDATE mails SET created_at = created_at - interval '61 minutes' WHERE recipient = $1`;
    await api.db.execute(earlier, [email]);
  }
  expect(await owedTo(email)).toBe(22);
  await askFrom('203.0.113.7', email);
  await askFrom('203.0.113.7', email);
  expect(await owedTo(email)).toBe(23);
});
