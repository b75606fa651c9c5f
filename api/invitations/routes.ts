/** Owners create, list and withdraw invitations. They are accepted in api/auth/invitations.ts. */
import { Type } from 'typebox';
import { chooseOrganization, managedOrganizations, ownerOf, refuseManaging } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { addMail, type MailParts } from '#api/mail-outbox.ts';
import { type MailLanguage, mailLanguages } from '#api/mail-texts.ts';
import { newInvitationToken } from '#api/people.ts';
import { changingRoute, route } from '#api/route.ts';
import { EMAIL_CHARACTERS_MAX, plainEmail } from '#common/email-address.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';
import { newId } from '#common/ids.ts';
import type { Queries } from '#common/stores/postgres.ts';
import {
  INVITATION_MS,
  type InvitationRow,
  invitationAnswer,
  invitationColumns,
  invitationExample,
  invitationFields,
} from './invitation.ts';

/** Maximum open invitations of one organization. */
const INVITATIONS_MAX = 100;
/** Expired rows that one new invitation deletes; more than it adds, so that the table stays bounded. */
const PURGED_MAX = 20;
const shared = { caller: 'user', scope: null, limit: 'general', tag: 'Members' } as const;

const insertion = `
  WITH expired AS (DELETE FROM invitations WHERE id IN (
    SELECT id FROM invitations WHERE expires_at <= least($7, signpost_deletion_time()) ORDER BY expires_at LIMIT ${PURGED_MAX} FOR UPDATE SKIP LOCKED))
  INSERT INTO invitations (id, organization_id, email, role, token_hash, invited_by, created_at, expires_at, is_by_mail)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
   WHERE signpost_has_room('invitations', $2, ${INVITATIONS_MAX})
  RETURNING ${invitationColumns}`;
const replacement =
  'DELETE FROM invitations WHERE organization_id = $1 AND (email = $2 OR expires_at <= least($3, signpost_deletion_time()))';
const isMember = `SELECT FROM memberships m JOIN users u ON u.id = m.user_id
  WHERE m.organization_id = $1 AND u.email = $2 AND u.deleted_at IS NULL`;

const createInvitation = changingRoute({
  ...shared,
  method: 'POST',
  path: '/invitations',
  operationId: 'createInvitation',
  showsSecret: true,
  summary: 'Invite a person',
  description:
    'If the installation sends mail, the link is mailed to the invited address and not in the answer. Otherwise, the answer contains the link, once, and you send it yourself; the account of the person who accepts is then unverified. The link works once, for 7 days, as long as you are an owner. A new invitation to the same address replaces the earlier one. Only owners can invite.',
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({ description: 'Optional for a user who belongs to exactly one organization.' }),
      ),
      email: Type.String({ format: 'email', maxLength: EMAIL_CHARACTERS_MAX }),
      role: invitationFields.role,
      language: Type.Optional(
        Type.Unsafe<MailLanguage>({
          type: 'string',
          enum: [...mailLanguages],
          description: 'Language of the mail; default en.',
        }),
      ),
    },
    { additionalProperties: false, title: 'NewInvitation' },
  ),
  bodyExample: { email: invitationExample.email, role: 'member' },
  answers: {
    201: {
      description: 'The invitation.',
      schema: Type.Object(
        {
          ...invitationFields,
          token: Type.Optional(
            Type.String({
              description:
                'For POST /auth/invitations/accept and POST /me/invitations. Shown once, and only if the installation sends no mail.',
            }),
          ),
          url: Type.Optional(
            Type.String({ description: 'The link to send: a page of the dashboard. Present if `token` is.' }),
          ),
        },
        { title: 'CreatedInvitation' },
      ),
      example: {
        ...invitationExample,
        mail: 'none',
        token: 'Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA',
        url: 'https://links.example.com/invitation#Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA',
      },
    },
  },
  async handle({ db, clock, dashboardUrl, mail }, { caller, note, body: wanted }) {
    const organizationId = await chooseOrganization(db, caller, wanted.organization_id);
    if (organizationId instanceof Rejection) return organizationId;
    const denied = refuseManaging(caller, organizationId);
    if (denied) return denied;
    const email = plainEmail(wanted.email);
    const members = await db.query(isMember, [organizationId, email]);
    if (members.length > 0) return invalid('email', 'is already a member of the organization');
    const { token, hash } = newInvitationToken();
    const url = `${dashboardUrl}/invitation#${token}`;
    const nowMs = clock();
    const times = [new Date(nowMs), new Date(nowMs + INVITATION_MS)];
    const values = [
      newId('inv', nowMs),
      organizationId,
      email,
      wanted.role,
      hash,
      caller.user_id,
      ...times,
      mail.isConfigured,
    ];
    // Two statements, because a single statement would not see its own deletion of replaced and expired invitations.
    const row = await db.transaction(async (queries) => {
      await queries.execute(replacement, [organizationId, email, new Date(nowMs)]);
      const [made] = await queries.query<InvitationRow>(insertion, values);
      if (!made) return made;
      const noted = await note(queries, made);
      if (!mail.isConfigured) return { ...made, noted };
      const isAdded = await addInvitationMail(queries, mail, made, { url, language: wanted.language ?? 'en' });
      if (!isAdded) mail.countLimited();
      return { ...made, noted, mail: isAdded ? ('waiting' as const) : ('limited' as const) };
    });
    if (!row) return invalid('body', `the organization has ${INVITATIONS_MAX} open invitations: withdraw one first`);
    mail.wake();
    const { noted, ...made } = row;
    const body = { ...invitationAnswer(made), ...(mail.isConfigured ? {} : { token, url }) };
    return { status: 201, body, noted };
  },
});

const namesOf =
  'SELECT o.name AS organization, u.email AS inviter FROM organizations o, users u WHERE o.id = $1 AND u.id = $2';

/** False if a mail limit is reached. */
async function addInvitationMail(
  queries: Queries,
  { encryption }: MailParts,
  { id, organization_id, email, role, invited_by, expires_at }: InvitationRow,
  link: { readonly url: string; readonly language: MailLanguage },
): Promise<boolean> {
  const names = await queries.query<{ organization: string; inviter: string }>(namesOf, [organization_id, invited_by]);
  const [{ organization, inviter } = { organization: '', inviter: '' }] = names;
  const content = { kind: 'invitation', ...link, organization, inviter, role } as const;
  const outgoing = { recipient: email, senderId: organization_id, subjectId: id, content, expiresAt: expires_at };
  return addMail(queries, encryption, outgoing);
}

const from = 'FROM invitations WHERE organization_id = ANY ($1) AND expires_at > $2';

const listInvitations = route({
  ...shared,
  method: 'GET',
  path: '/invitations',
  operationId: 'listInvitations',
  summary: 'List open invitations',
  description:
    'Invitations that were neither accepted nor withdrawn and have not expired, newest first. Only for owners.',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of invitations.',
      schema: listSchema(Type.Object(invitationFields, { title: 'Invitation' })),
      example: { data: [invitationExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, clock }, { caller, query }) {
    const organizations = await managedOrganizations(db, caller, query.organization_id);
    if (organizations instanceof Rejection) return organizations;
    const { limit, offset } = pageOf(query);
    const values = [organizations, new Date(clock())];
    const [counted] = await db.query<{ total: number }>(
      `SELECT count(*) AS total ${from}`,
      values,
      'invitations_count',
    );
    const sql = `SELECT ${invitationColumns} ${from} ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4`;
    const rows = await db.query<InvitationRow>(sql, [...values, limit, offset], 'invitations_page');
    return listAnswer(rows.map(invitationAnswer), Number(counted?.total ?? 0), { limit, offset });
  },
});

const deleteInvitation = changingRoute({
  ...shared,
  method: 'DELETE',
  path: '/invitations/{invitation_id}',
  operationId: 'deleteInvitation',
  summary: 'Withdraw an invitation',
  description: 'Its link stops working at once. Only for owners.',
  params: Type.Object({ invitation_id: Type.String({ examples: [invitationExample.id] }) }),
  answers: {
    200: {
      description: 'The invitation is withdrawn.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: invitationExample.id, deleted: true },
    },
  },
  async handle({ db }, { caller, note, params }) {
    const id = params.invitation_id;
    const organization_id = await ownerOf(db, caller, { kind: 'inv', id, to: 'manage' });
    if (organization_id instanceof Rejection) return organization_id;
    return db.transaction(async (queries) => {
      await queries.execute('DELETE FROM invitations WHERE id = $1', [id]);
      return { status: 200, body: { id, deleted: true }, noted: await note(queries, { organization_id, id }) };
    });
  },
});

export const invitationRoutes: readonly Route<ApiDeps>[] = [createInvitation, listInvitations, deleteInvitation];
