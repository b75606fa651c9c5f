/** Invitations, members and accounts in a real browser with the real API. Elements are found by role and label. */
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { skipWithout } from '#testing/skip.ts';
import { type SmtpServerForTest, smtpServerForTest } from '#testing/smtp-server.ts';
import {
  chromiumProgram,
  type DashboardStage,
  logIn,
  type Person,
  password,
  startDashboard,
} from './testing/dashboard-stage.ts';

let smtp: SmtpServerForTest;
let stage: DashboardStage;
let owner: Person;

beforeAll(async () => {
  if (chromiumProgram === undefined) return;
  smtp = await smtpServerForTest();
  stage = await startDashboard({
    SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
    SMTP_TLS: 'if_offered',
    MAIL_FROM: 'links@example.com',
  });
  owner = await stage.person();
});
afterAll(async () => {
  await stage?.stop();
  await smtp?.stop();
});

const inBrowser = (context: TestContext) => skipWithout(chromiumProgram !== undefined, 'chromium', context);
const nav = (page: Page, name: string) => page.getByRole('navigation').getByRole('link', { name, exact: true });
const good = 'seven unrelated heavy words';
let invited = 0;

async function invite(role: string, email = `grace${invited++}@example.com`) {
  const { status, body } = await owner.call('POST', '/invitations', { email, role });
  expect(status, JSON.stringify(body)).toBe(201);
  const token = await mailedToken(email);
  return { id: body.id as string, email, token, url: `${stage.origin}/invitation#${token}` };
}

/** The token of the last invitation that was mailed to the address. */
async function mailedToken(email: string): Promise<string> {
  await stage.api.mailer.look();
  const mail = smtp.mails.findLast(({ to }) => to.includes(email));
  return /\/invitation#([\w-]{43})/.exec(mail?.text ?? '')?.[1] ?? '';
}

test('an invited person sets a password and joins, and no address, Referer or history of the browser has the token', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { email, token, url } = await invite('viewer');
  const { page, context: browser, faults } = await stage.page();
  const sent: string[] = [];
  page.on('request', (request) => sent.push(request.url(), JSON.stringify(request.headers())));
  await page.goto(url);
  await page.getByRole('heading', { name: 'Join Example Ltd' }).waitFor();
  await page.getByText('Your role: Viewer.').waitFor();
  expect(page.url()).toBe(`${stage.origin}/invitation`);
  await page.reload();
  expect(await page.getByLabel('Email').inputValue()).toBe(email);
  await page.getByLabel('Your name').fill('Grace');
  await page.getByLabel('Password').fill('password1234');
  await page.getByRole('button', { name: 'Create account and join' }).click();
  await expect.poll(() => page.getByLabel('Password').getAttribute('aria-invalid')).toBe('true');
  await page.getByLabel('Password').fill(good);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'You are now a member of Example Ltd' }).waitFor();
  await page.getByRole('link', { name: 'Open the dashboard' }).click();
  await nav(page, 'Members').waitFor();
  expect(sent.filter((text) => text.includes(token))).toEqual([]);
  expect(faults).toEqual([]);
  await browser.close();
});

test('an invited account that is not logged in to this browser logs in to join, and every open tab switches to it', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const [stranger, other] = [await stage.person(), await stage.person()];
  const { url } = await invite('member', stranger.email);
  const { page, context: browser } = await stage.loggedIn(other);
  const second = await browser.newPage();
  for (const tab of [page, second]) {
    await tab.goto(url);
    await tab.getByText(`You are logged in as ${other.email}`).waitFor();
  }
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Log in and join' }).click();
  await page.getByText('The password is wrong.').waitFor();
  await page.getByText(`You are logged in as ${other.email}`).waitFor();
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in and join' }).click();
  for (const tab of [page, second])
    await tab.getByRole('heading', { name: 'You are now a member of Example Ltd' }).waitFor();
  await second.getByRole('link', { name: 'Open the dashboard' }).click();
  await second.getByText(stranger.email).first().waitFor();
  await browser.close();
});

test('a logged-in account accepts with one click, and a second tab then says what to do', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const { url } = await invite('member', person.email);
  const { page, context: browser } = await stage.loggedIn(person);
  await page.goto(url);
  await page.getByRole('button', { name: 'Accept the invitation' }).click();
  await page.getByRole('heading', { name: 'You are now a member of Example Ltd' }).waitFor();
  const late = await browser.newPage();
  await late.goto(url);
  await late.getByRole('heading', { name: 'This invitation no longer works' }).waitFor();
  await late.getByRole('link', { name: 'Open the dashboard' }).click();
  await nav(late, 'Members').waitFor();
  await browser.close();
});

test('a withdrawn, wrong or incomplete link says what to do', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const { id, url } = await invite('viewer');
  await owner.call('DELETE', `/invitations/${id}`);
  const { page, context: browser } = await stage.page();
  for (const [address, title] of [
    [url, 'This invitation no longer works'],
    [`${stage.origin}/invitation#${'A'.repeat(43)}`, 'This invitation no longer works'],
    [url.slice(0, -5), 'This link is incomplete'],
    [`${stage.origin}/invitation`, 'This link is incomplete'],
  ] as const) {
    await page.goto('about:blank');
    await page.goto(address);
    await page.getByRole('heading', { name: title }).waitFor();
  }
  await page.goto(url);
  await page.getByText('ask an owner of the organization').waitFor();
  await page.getByRole('link', { name: 'Log in' }).click();
  await logIn(page, owner.email);
  await browser.close();
});

test('an owner invites, sends again, withdraws, changes a role, removes a member and renames the organization', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const boss = await stage.person();
  const member = await stage.person('member', boss.organization_id);
  await stage.api.db.execute(`UPDATE users SET name = 'Mina' WHERE id = $1`, [member.user_id]);
  const { page, context: browser, faults } = await stage.loggedIn(boss);
  await nav(page, 'Members').click();
  await page.getByRole('button', { name: 'Invite' }).click();
  await page.keyboard.type('new@example.com');
  await page.getByLabel('Role', { exact: true }).selectOption({ label: 'Viewer' });
  await page.getByRole('button', { name: 'Create invitation' }).click();
  const isMailed = page.getByText('An email with the link is on its way to new@example.com.');
  await isMailed.waitFor();
  // Only the recipient gets the link.
  expect(await page.getByText(/\/invitation#/).count()).toBe(0);
  expect(await page.getByRole('button', { name: 'Copy link' }).count()).toBe(0);
  const first = await mailedToken('new@example.com');
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Send again to new@example.com' }).click();
  await isMailed.waitFor();
  const second = await mailedToken('new@example.com');
  expect(second).not.toBe(first);
  const lookUp = async (token: string) =>
    (await stage.api.call('', 'POST', '/auth/invitations/look-up', { token })).status;
  expect([await lookUp(first), await lookUp(second)]).toEqual([404, 200]);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Withdraw the invitation for new@example.com' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Withdraw', exact: true }).click();
  await page.getByRole('heading', { name: 'Open invitations' }).waitFor({ state: 'detached' });
  expect(await lookUp(second)).toBe(404);

  await page.getByLabel('Role of Mina').selectOption({ label: 'Viewer' });
  await page.getByText('The role was changed.').waitFor();
  const listed = async () =>
    (await boss.call('GET', '/members')).body.data.map((one: { role: string }) => one.role).sort();
  expect(await listed()).toEqual(['owner', 'viewer']);
  await page.getByRole('button', { name: 'Remove Mina' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await page.getByText('The person was removed.').waitFor();
  expect(await listed()).toEqual(['owner']);

  await page.getByRole('button', { name: 'Rename Example Ltd' }).click();
  await page.getByLabel('Name of the organization').fill('Engines');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Leave Engines' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
  await page.getByText('This is the last owner').waitFor();
  expect(await listed()).toEqual(['owner']);
  expect(faults).toEqual([]);
  await browser.close();
});

test('a viewer sees the members and no control that changes them, and leaves the organization', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const boss = await stage.person();
  const viewer = await stage.person('viewer', boss.organization_id);
  const { page, context: browser, faults } = await stage.loggedIn(viewer);
  await nav(page, 'Members').click();
  await page.getByText(boss.email).waitFor();
  // A button without text is the icon that exports the list.
  const names = await page.getByRole('main').getByRole('button').allTextContents();
  expect(names.filter((name) => name !== '')).toEqual(['Leave']);
  await page.getByRole('main').getByRole('button', { name: /CSV/ }).waitFor();
  expect(names).toHaveLength(2);
  expect(await page.getByRole('main').getByRole('combobox').count()).toBe(0);
  await page.getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { name: 'You are not a member of any organization' }).waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

test('a changed password ends the logins of other browsers and keeps this one', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person('member', owner.organization_id);
  const other = await stage.loggedIn(person);
  const { page, context: browser } = await stage.loggedIn(person);
  await page.goto(`${stage.origin}/account`);
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByLabel('Current password').fill(password);
  await page.getByLabel('New password').fill(good);
  await page.keyboard.press('Enter');
  await page.getByText('The password was changed.').waitFor();
  await nav(page, 'Apps').click();
  await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
  await nav(other.page, 'Links').click();
  await other.page.getByRole('button', { name: 'Log in' }).waitFor();
  await logIn(other.page, person.email, good);
  await other.context.close();
  await browser.close();
});

test('someone who has forgotten their password gets a link by mail, sets a new one and logs in', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person('member', owner.organization_id);
  const { page, context: browser, faults } = await stage.page();
  await page.goto(stage.origin);
  await page.getByRole('link', { name: 'Forgot your password?' }).click();
  await page.getByLabel('Email').fill(person.email);
  await page.getByRole('button', { name: 'Send link' }).click();
  await page.getByRole('heading', { name: 'Check your email' }).waitFor();
  await stage.api.mailer.look();
  const mail = smtp.mails.find(({ to }) => to.includes(person.email));
  const token = /\/password-reset#([\w-]{43})/.exec(mail?.text ?? '')?.[1] ?? '';
  await page.goto(`${stage.origin}/password-reset#${token}`);
  await page.getByLabel('New password').fill('password1234');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.getByLabel('New password').getAttribute('aria-invalid')).toBe('true');
  expect(page.url()).not.toContain(token);
  await page.getByLabel('New password').fill(good);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'The password was changed.' }).waitFor();
  await page.getByRole('link', { name: 'Log in' }).click();
  await logIn(page, person.email, good);
  await page.goto('about:blank');
  await page.goto(`${stage.origin}/password-reset#${token}`);
  await page.getByLabel('New password').fill(good);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Send another link' }).click();
  await page.getByLabel('Email').waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});

test('the audit log shows who changed what, filtered by person and kind, and is saved as a file; a member sees none', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const boss = await stage.person();
  const member = await stage.person('member', boss.organization_id);
  await stage.api.db.execute(`UPDATE users SET name = 'Mina' WHERE id = $1`, [member.user_id]);
  const app = (await boss.call('POST', '/apps', { name: 'Logged' })).body;
  await member.call('POST', '/links', { app_id: app.id, path: '/a' });
  const { page, context: browser, faults } = await stage.loggedIn(boss);
  await nav(page, 'Members').click();
  await page.getByRole('link', { name: 'Audit log' }).click();
  const rows = page.getByRole('region', { name: 'Audit log' }).getByRole('row');
  await page.getByText('App created').waitFor();
  await expect.poll(() => rows.count()).toBe(3);
  await page.getByLabel('Person').selectOption({ label: 'Mina' });
  await expect.poll(() => rows.count()).toBe(2);
  await page.getByText('Link created').waitFor();
  await page.getByLabel('Kind of change').selectOption({ label: 'Apps' });
  await page.getByRole('heading', { name: 'No changes' }).waitFor();
  await page.getByLabel('Person').selectOption({ label: 'Everyone' });
  await page.getByLabel('Period').selectOption({ label: 'Last 24 hours' });
  await page.getByText('App created').waitFor();
  await expect.poll(() => new URL(page.url()).search).toBe('?kind=apps&days=1');
  const waits = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export as CSV' }).click();
  const lines = readFileSync(await (await waits).path(), 'utf8')
    .trim()
    .split('\r\n');
  expect(lines).toHaveLength(2);
  expect(lines[1]).toContain(`${boss.email},createApp,${app.id},name,`);
  const { key } = (await boss.call('POST', '/keys', { name: boss.email, scopes: ['apps:write'] })).body;
  expect((await stage.api.call(key, 'POST', '/apps', { name: 'By a key' })).status).toBe(201);
  await page.reload();
  await page.getByRole('cell', { name: `Server key “${boss.email}”` }).waitFor();
  expect(faults).toEqual([]);
  await browser.close();
  const other = await stage.loggedIn(member);
  await other.page.goto(`${stage.origin}/members/audit`);
  await other.page.getByText('Only owners of an organization can see its audit log.').waitFor();
  await other.context.close();
});

test('a member of two organizations selects one, and every tab of the browser shows only that one', {
  tags: ['slow'],
}, async (context) => {
  inBrowser(context);
  const person = await stage.person();
  const second = await stage.person();
  await stage.api.db.execute(`UPDATE organizations SET name = 'Second Ltd' WHERE id = $1`, [second.organization_id]);
  await stage.api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    person.user_id,
    second.organization_id,
  ]);
  await person.call('POST', '/apps', { name: 'First app', organization_id: person.organization_id });
  await second.call('POST', '/apps', { name: 'Second app' });
  const { page, context: browser, faults } = await stage.loggedIn(person);
  const other = await browser.newPage();
  for (const tab of [page, other]) {
    await tab.goto(`${stage.origin}/apps`);
    for (const name of ['First app', 'Second app']) await tab.getByRole('link', { name }).waitFor();
  }
  await page.getByLabel('Organization', { exact: true }).selectOption({ label: 'Second Ltd' });
  for (const tab of [page, other]) {
    await tab.getByRole('link', { name: 'First app' }).waitFor({ state: 'detached' });
    await tab.getByRole('link', { name: 'Second app' }).waitFor();
    // The person is a viewer there.
    expect(await tab.getByRole('button', { name: 'New app' }).count()).toBe(0);
  }
  await other.reload();
  await other.getByRole('link', { name: 'Second app' }).waitFor();
  expect(await other.getByRole('link', { name: 'First app' }).count()).toBe(0);
  await other.getByLabel('Organization', { exact: true }).selectOption({ label: 'All organizations' });
  for (const tab of [page, other])
    for (const name of ['First app', 'Second app']) await tab.getByRole('link', { name }).waitFor();
  expect(faults).toEqual([]);
  await browser.close();
});
