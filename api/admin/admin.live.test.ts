import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { verifyPassword } from '#api/auth/password.ts';
import { ApiKeys, newApiKey } from '#common/api-key.ts';
import { systemClock } from '#common/clock.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import { childEnvironment } from '#common/process/config.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { Rows } from '#redirector/testing/running-edge.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { postgresForTest, type TestDatabase } from '#testing/servers.ts';
import {
  type AdminParts,
  addMember,
  createFirstUser,
  createOrganization,
  createUser,
  listAccounts,
} from './accounts.ts';
import { setExchangeRates } from './exchange-rates.ts';
import { reencryptApiKeys } from './secret-rotation.ts';

let database: TestDatabase;
let parts: AdminParts;

beforeAll(async () => {
  database = await postgresForTest();
  parts = {
    db: new Postgres({ url: database.url, name: 'admin-test', connectTimeoutMs: patientConnectMs }),
    clock: systemClock,
  };
});
beforeEach(() => parts.db.execute('TRUNCATE organizations, users CASCADE'));
afterAll(async () => {
  await parts.db.close();
  await database.stop();
});

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command as a script would: no terminal, at most a password on standard input. */
function admin(args: string[], input = '', settings: Record<string, string> = {}): Promise<Run> {
  const env = { ...childEnvironment({ DATABASE_URL: database.url }), ADMIN_EMAIL: '', ADMIN_PASSWORD: '', ...settings };
  const child = spawn(process.execPath, ['dist/deploy/local/admin.js', ...args], { env, stdio: 'pipe' });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => (stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  child.stdin.on('error', () => undefined).end(input);
  return new Promise((done) => child.on('close', (code) => done({ code, stdout, stderr })));
}

async function passwordHash(email: string): Promise<string> {
  const [row] = await parts.db.query<{ password_hash: string }>('SELECT password_hash FROM users WHERE email = $1', [
    email,
  ]);
  return row?.password_hash ?? '';
}

test('explain says where a short link leads, as the redirector decides it', { tags: ['slow'] }, async () => {
  const rows = new Rows(database.url);
  await rows.begin();
  const app = await rows.app({ host: 'go.shop.example', fallback_url: 'https://shop.example/' });
  await rows.link(app, { short_code: 'summer' });
  const rules = [{ country: ['DE'], before: '2026-01-01T00:00:00Z', url: 'https://de.example/' }];
  await rows.link(app, { short_code: 'ruled', rules });
  await rows.db.close();
  const { code, stdout, stderr } = await admin(['explain', 'go.shop.example/summer?k=1', '--user-agent', 'curl/8']);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain("the app's fallback_url decides");
  expect(stdout).toContain('HTTP 302\n');
  expect(stdout).toContain('\nLocation: https://shop.example/?k=1\n');
  const ruled = ['explain', 'go.shop.example/ruled', '--user-agent', 'curl/8', '--country', 'DE', '--at'];
  const [before, after] = await Promise.all([
    admin([...ruled, '2025-12-31T00:00Z']),
    admin([...ruled, '2026-01-01T00:00Z']),
  ]);
  expect(before.stdout).toContain('All conditions of rules[0] hold, so it decides.');
  expect(before.stdout).toContain('\nLocation: https://de.example/\n');
  expect(after.stdout).toContain('rules[0] is skipped: its before does not hold.');
  const unknown = await admin(['explain', 'https://go.shop.example/winter', '--user-agent', 'curl/8']);
  expect([unknown.code, unknown.stderr]).toEqual([1, 'there is no link go.shop.example/winter: visitors get a 404\n']);
});

test('a script creates a user with flags and a password on standard input', { tags: ['slow'] }, async () => {
  const args = ['create-user', '--email', 'Ada@Example.com', '--organization', 'Engines', '--name', 'Ada'];
  const made = await admin(args, 'correct horse battery\n');
  expect([made.code, made.stderr]).toEqual([0, '']);
  expect(made.stdout).toMatch(/^Ada@Example\.com is owner of org_\w+, as usr_\w+\n$/);
  expect(made.stdout).not.toContain('correct');
  expect(await verifyPassword(await passwordHash('ada@example.com'), 'correct horse battery')).toBe(true);
  const again = await admin(args, 'correct horse battery\n');
  expect([again.code, again.stderr]).toEqual([1, 'a user with the e-mail address ada@example.com already exists\n']);
});

test('the reader of an output may end first, as head does: the command does its work, and prints no error', async () => {
  const env = childEnvironment({ DATABASE_URL: database.url });
  for (const words of [['create-organization', '--name', 'Piped'], ['list']]) {
    const child = spawn(process.execPath, ['dist/deploy/local/admin.js', ...words], { env, stdio: 'pipe' });
    child.stdout.destroy();
    let stderr = '';
    child.stderr.on('data', (chunk) => (stderr += String(chunk)));
    const code = await new Promise((done) => child.on('close', done));
    expect([words[0], code, stderr]).toEqual([words[0], 0, '']);
  }
  expect(await parts.db.query('SELECT name FROM organizations')).toEqual([{ name: 'Piped' }]);
});

const mistakes = (
  [
    [['create-user', '--organization', 'x'], 'correct horse battery', '--email is missing'],
    [
      ['create-user', '--email', 'no-address', '--organization', 'x'],
      'correct horse battery',
      '--email must be an e-mail address',
    ],
    [['create-user', '--email', 'a@b.example'], 'correct horse battery', '--organization is missing'],
    [['create-user', '--email', 'a@b.example', '--organization', 'x'], 'short', 'must have 12 to 1024 characters'],
    [['create-user', '--email', 'a@b.example', '--organization', 'x'], 'password1234', 'is easy to guess'],
    [['create-user', '--email', 'a@b.example', '--organization', 'x'], '', 'must have 12 to 1024 characters'],
    [
      ['create-user', '--email', 'a@b.example', '--organization', newId('org', 1)],
      'correct horse battery',
      'there is no organization',
    ],
    [
      ['add-member', '--email', 'a@b.example', '--organization', 'x', '--role', 'member'],
      '',
      'there is no organization x',
    ],
    [['add-member', '--email', 'a@b.example', '--organization', 'x', '--role', 'king'], '', 'Allowed choices are'],
    [['reset-password', '--email', 'a@b.example'], 'correct horse battery', 'there is no user a@b.example'],
    [['create-user', '--password', 'secret'], '', 'unknown option'],
    [['dance'], '', 'unknown command'],
  ] as const
).map(([args, input, reason]) => ({ args, input, reason }));
testCostlyCases(
  mistakes,
  1,
  'a command with a mistake fails with the message $reason',
  async ({ args, input, reason }) => {
    const run = await admin([...args], input);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain(reason);
    expect(run.stderr).not.toContain('    at ');
    expect(await parts.db.query('SELECT FROM users')).toEqual([]);
  },
);

test('--help lists every command without a database', async () => {
  const { code, stdout } = await admin(['--help'], '', { DATABASE_URL: '' });
  expect(code).toBe(0);
  const names =
    'create-user create-organization add-member remove-member disable-user enable-user delete-user verify-host release-host require-totp reset-totp';
  for (const name of `${names} delete-organization reset-password list rotate-secret`.split(' ')) {
    expect(stdout).toContain(name);
  }
});

test('users and organizations are removed by command, each with one line of output', {
  tags: ['slow'],
  timeout: 120_000,
}, async () => {
  for (const email of ['a@example.com', 'b@example.com']) {
    await createUser(parts, { email, name: '', password: 'correct horse battery', organization: 'One' });
  }
  const of = (email: string) => ['--email', email];
  const one = ['--organization', 'One'];
  expect((await admin(['remove-member', ...of('a@example.com'), ...one])).stderr).toContain('is the last owner of One');
  expect((await admin(['disable-user', ...of('a@example.com')])).stdout).toMatch(
    /^a@example\.com is disabled\nOne \(org_\w+\) now has no owner who can log in\n$/,
  );
  expect((await admin(['list'])).stdout).toContain('a@example.com  (disabled)');
  expect((await admin(['delete-user', ...of('b@example.com')])).stdout).toBe('b@example.com is deleted\n');
  const deleted = await admin(['delete-organization', ...one]);
  expect([deleted.code, deleted.stdout]).toEqual([0, expect.stringMatching(/^org_\w+ is deleted, with 0 apps\n$/)]);
  expect((await admin(['release-host', '--host', 'go.example.com'])).stderr).toBe(
    'no organization owns the host go.example.com\n',
  );
});

test('the first user is created from the environment, and printed, exactly once', async () => {
  const settings = { ADMIN_EMAIL: 'first@example.com', ADMIN_PASSWORD: 'a long password' };
  const first = await admin(['create-user', '--if-none'], '', settings);
  expect([first.code, first.stdout]).toEqual([0, 'login first@example.com\n']);
  const second = await admin(['create-user', '--if-none'], '', { ...settings, ADMIN_EMAIL: 'second@example.com' });
  expect([second.code, second.stdout]).toEqual([0, 'A user already exists; nothing was changed.\n']);
  expect(await verifyPassword(await passwordHash('first@example.com'), 'a long password')).toBe(true);
});

test('a weak password is accepted with a warning for the first user, and rejected for every other user', {
  tags: ['slow'],
}, async () => {
  const settings = { ADMIN_EMAIL: 'first@example.com', ADMIN_PASSWORD: 'password1' };
  const first = await admin(['create-user', '--if-none'], '', settings);
  expect([first.code, first.stdout]).toEqual([0, 'login first@example.com\n']);
  expect(first.stderr).toContain('Warning: ADMIN_PASSWORD must have 12 to 1024 characters');
  // ADMIN_PASSWORD is still set, and is no one else's.
  const second = await admin(
    ['create-user', '--email', 'b@example.com', '--organization', 'x'],
    'password1234',
    settings,
  );
  expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('is easy to guess')]);
  const reset = await admin(['reset-password', '--email', 'first@example.com'], 'first@example.com', settings);
  expect([reset.code, reset.stderr]).toEqual([1, expect.stringContaining('is easy to guess')]);
});

test('a first password that is not given is generated, printed and valid', { tags: ['slow'] }, async () => {
  const { stdout } = await admin(['create-user', '--if-none']);
  const [, password = ''] = /^login admin@example\.com password (\S{20})\n$/.exec(stdout) ?? [];
  expect(await verifyPassword(await passwordHash('admin@example.com'), password)).toBe(true);
});

test.each([
  { email: 'https://evil.example@x.example', refused: 'e-mail' },
  { email: 'ada@localhost', refused: 'e-mail' },
  { email: 'mi\u212ae@k.example', refused: 'e-mail' },
  { name: 'Ada\u202e', refused: 'name' },
  { name: 'Ada\nLovelace', refused: 'name' },
  { organization: 'Acme\u202e', refused: 'name of the organization' },
])('an operator creates no user with %o', async ({ refused, ...given }) => {
  const user = {
    email: 'ada@x.example',
    name: 'Ada',
    password: 'correct horse battery',
    organization: 'One',
    ...given,
  };
  for (const create of [createUser, createFirstUser])
    expect(await create(parts, user)).toMatchObject({ message: expect.stringContaining(`the ${refused} must`) });
  expect(await parts.db.query('SELECT FROM users')).toEqual([]);
});

test('an address that only older versions accepted as the first user’s stops no later start', async () => {
  await createUser(parts, { email: 'a@x.example', name: '', password: 'correct horse battery', organization: 'One' });
  const user = { email: 'admin@localhost', name: '', password: 'correct horse battery', organization: 'One' };
  expect(await createFirstUser(parts, user)).toEqual({ kind: 'exists' });
});

test('ten concurrent calls create one first user', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 10 }, (_, n) =>
      createFirstUser(parts, {
        email: `u${n}@example.com`,
        name: '',
        password: 'correct horse battery',
        organization: 'x',
      }),
    ),
  );
  expect(outcomes.filter((outcome) => outcome.kind === 'created')).toHaveLength(1);
  expect(await parts.db.query('SELECT FROM users')).toHaveLength(1);
  expect(await parts.db.query('SELECT FROM organizations')).toHaveLength(1);
});

test('five concurrent calls with the same name create one organization', { tags: ['slow'] }, async () => {
  const outcomes = await Promise.all(Array.from({ length: 5 }, () => createOrganization(parts, 'Engines')));
  expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['created', 'refused', 'refused', 'refused', 'refused']);
  const again = await admin(['create-organization', '--name', ' Engines ']);
  expect([again.code, again.stderr]).toEqual([1, 'an organization named Engines already exists\n']);
  const added = await createUser(parts, {
    email: 'a@b.example',
    name: '',
    password: 'correct horse battery',
    organization: 'Engines',
  });
  expect(added.kind).toBe('created');
});

test('members can be added, change role, and be listed', { tags: ['slow'] }, async () => {
  await createUser(parts, { email: 'a@example.com', name: '', password: 'correct horse battery', organization: 'One' });
  await createUser(parts, { email: 'b@example.com', name: '', password: 'correct horse battery', organization: 'One' });
  const two = await admin(['create-organization', '--name', 'Two']);
  expect(two.stdout).toMatch(/^org_\w+\n$/);
  await addMember(parts, 'A@example.com', two.stdout.trim(), 'viewer');
  await addMember(parts, 'a@example.com', 'Two', 'member');
  const listed = await listAccounts(parts);
  expect(listed.map(({ name, apps, members }) => ({ name, apps, members }))).toEqual([
    {
      name: 'One',
      apps: 0,
      members: [
        { email: 'a@example.com', role: 'owner' },
        { email: 'b@example.com', role: 'member' },
      ],
    },
    { name: 'Two', apps: 0, members: [{ email: 'a@example.com', role: 'member' }] },
  ]);
  expect((await admin(['list'])).stdout).toContain('    owner   a@example.com');
  expect(JSON.parse((await admin(['list', '--json'])).stdout)).toEqual(listed);
});

test('a password reset ends the sessions of the old password', { tags: ['slow'] }, async () => {
  const user = await createUser(parts, {
    email: 'a@example.com',
    name: '',
    password: 'an old horse battery',
    organization: 'x',
  });
  if (user.kind !== 'created') throw new Error(user.message);
  await parts.db.execute(
    `INSERT INTO refresh_tokens (id, user_id, family_id, token_hash, expires_at) VALUES ('t', $1, 't', '\\x00', now() + interval '1 day')`,
    [user.user_id],
  );
  const reset = await admin(['reset-password', '--email', 'a@example.com'], 'a new horse battery');
  expect([reset.code, reset.stderr]).toEqual([0, '']);
  expect(await verifyPassword(await passwordHash('a@example.com'), 'a new horse battery')).toBe(true);
  expect(await parts.db.query('SELECT FROM refresh_tokens WHERE revoked_at IS NULL')).toEqual([]);
});

test('after a secret rotation all API keys are unchanged and need only the new secret', {
  tags: ['slow'],
}, async () => {
  const old = newSecretKey('old');
  const before = new ApiKeys(parseSecretKeys(old));
  const organization = newId('org', 1);
  await parts.db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [organization]);
  const keys = new Map<string, string>();
  for (let n = 0; n < 5; n++) {
    const [id, key] = [newId('app', n), newApiKey()];
    const stored = before.store(key, id);
    keys.set(id, key);
    await parts.db.execute(
      `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
       VALUES ($1, $2, 'a', $1, '{}', $3, $4, $5, now(), now())`,
      [id, organization, stored.api_key_ciphertext, stored.api_key_hash, stored.api_key_preview],
    );
  }
  const printed = (await admin(['rotate-secret', '--new'], '', { SECRET_KEY: old })).stdout.trim();
  expect(printed.endsWith(`,${old}`)).toBe(true);
  expect((await admin(['rotate-secret'], '', { SECRET_KEY: printed })).stdout).toMatch(
    /^5 API keys are now encrypted with key k/,
  );
  const after = new ApiKeys(parseSecretKeys(printed.split(',').slice(0, 1).join()));
  for (const [id, key] of keys) {
    const [row] = await parts.db.query<{ api_key_ciphertext: string; api_key_hash: Buffer }>(
      'SELECT * FROM apps WHERE id = $1',
      [id],
    );
    expect(after.show(row?.api_key_ciphertext ?? '', id)).toBe(key);
    expect(after.hash(key).equals(row?.api_key_hash ?? Buffer.alloc(0))).toBe(true);
  }
  expect(await reencryptApiKeys(parts.db, new ApiKeys(parseSecretKeys(printed)))).toBe(0);
});

test('exchange rates are stored all or none, replaced when repeated, and dropped after ten years', async () => {
  await parts.db.execute("INSERT INTO exchange_rates (day, currency, rate) VALUES ('2001-01-31', 'EUR', 1)");
  const text =
    '\uFEFFday,currency,rate\r\n2026-01-31,EUR,1\n2026-01-31, USD, 0.9\n\n2026-02-01,USD,0.000000000000001\n';
  for (const rates of [text, text.replace('0.9', '0.95')])
    expect(await setExchangeRates(parts, rates)).toEqual({ kind: 'stored', rates: 3, days: 2 });
  for (const [line, wrong] of [
    '2026-02-30,EUR,1',
    '2026-03-01,eur,1',
    '2026-03-01,EUR,0.0',
    '2026-03-01,EUR,-1',
    'x',
  ].entries()) {
    const found = await setExchangeRates(parts, `${'2026-03-01,EUR,1\n'.repeat(line)}${wrong}`);
    expect(found).toMatchObject({ kind: 'refused', message: expect.stringContaining(`line ${line + 1} `) });
  }
  expect((await setExchangeRates(parts, 'day,currency,rate\n')).kind).toBe('refused');
  const stored =
    'SELECT day::text, currency, trim_scale(rate)::text AS rate FROM exchange_rates ORDER BY day, currency';
  expect(await parts.db.query(stored)).toEqual([
    { day: '2026-01-31', currency: 'EUR', rate: '1' },
    { day: '2026-01-31', currency: 'USD', rate: '0.95' },
    { day: '2026-02-01', currency: 'USD', rate: '0.000000000000001' },
  ]);
});

test.each(['destnation=Where to', 'ios=x', '__proto__=x'])(
  '--column %s is refused, naming the field',
  async (column) => {
    const args = ['import', '--app', 'app_x', '--source', 'csv', '--file', 'links.csv', '--column', column];
    const { code, stderr } = await admin(args);
    expect(code).toBe(1);
    expect(stderr).toContain(`--column ${column}: ${column.split('=')[0]} is not an import field`);
  },
);

test('a file of links is checked, imported and undone from the command line', { tags: ['slow'] }, async () => {
  const { db } = parts;
  const [organization, app] = [newId('org', 1), newId('app', 1)];
  await db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'Import')`, [organization]);
  await db.execute(
    `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at, host_verified_at)
     VALUES ($1, $2, 'Import', 'go.import.example', '{}', 'x', 'import', 'x', now(), now(), now())`,
    [app, organization],
  );
  const folder = mkdtempSync(join(tmpdir(), 'signpost-import-'));
  const file = join(folder, 'links.csv');
  writeFileSync(file, 'Slug;Where to\na.b;https://e.example/1\nc;http://e.example/2\nhealthz;https://e.example/3\n');
  const links = async () => (await db.query('SELECT FROM links WHERE app_id = $1', [app])).length;
  const args = ['import', '--app', app, '--source', 'csv', '--file', file, '--column', 'destination=Where to'];

  const looked = await admin(args);
  expect([looked.code, looked.stderr]).toEqual([0, '']);
  expect(looked.stdout).toContain('new: 1, same: 0, conflict: 0, unsupported: 2');
  expect(looked.stdout).toContain('line 4: unsupported: code: is reserved');
  expect(await links()).toBe(0);
  const id = /--confirm (imp_\w+)/.exec(looked.stdout)?.[1] ?? '';
  expect(await admin(['import', '--confirm', id])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('1 links imported'),
  });
  expect(await links()).toBe(1);
  // The import runs in one command, and the link that already exists is not created again.
  expect((await admin([...args, '--upgrade-http', '--confirm'])).stdout).toContain('new: 1, same: 1');
  expect(await links()).toBe(2);
  expect((await admin(['import', '--undo', id])).stdout).toContain('1 links removed, 0 kept');
  expect(await links()).toBe(1);
  for (const [wrong, message] of [
    [['import', '--app', app, '--file', file, '--source', 'x'], '--source must be one of'],
    [['import', '--app', 'app_x', '--file', file, '--source', 'csv'], 'there is no app app_x'],
    [['import', '--undo', id], 'is undone, not imported'],
    [args.slice(0, -2), 'cannot be read: No column contains the destination'],
  ] as const) {
    const run = await admin([...wrong]);
    expect([run.code, run.stderr]).toEqual([1, expect.stringContaining(message)]);
  }
  rmSync(folder, { recursive: true });
});
