import { Type } from 'typebox';
import type { Role } from '#api/route.ts';
import { DAY_MS } from '#common/durations.ts';

export const INVITATION_MS = 7 * DAY_MS;

export interface InvitationRow {
  readonly id: string;
  readonly organization_id: string;
  readonly email: string;
  readonly role: Role;
  readonly invited_by: string;
  readonly created_at: Date;
  readonly expires_at: Date;
  readonly mail: MailState;
}

export type MailState = 'none' | 'limited' | 'waiting' | 'sent' | 'failed';

export const invitationColumns = `id, organization_id, email, role, invited_by, created_at, expires_at,
  coalesce((SELECT m.state FROM mails m WHERE m.subject_id = invitations.id LIMIT 1), 'none') AS mail`;

export const invitationFields = {
  id: Type.String(),
  organization_id: Type.String(),
  email: Type.String(),
  role: Type.Unsafe<Role>({ type: 'string', enum: ['owner', 'member', 'viewer'] }),
  invited_by: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: Type.String({ format: 'date-time' }),
  mail: Type.Unsafe<MailState>({
    type: 'string',
    enum: ['none', 'limited', 'waiting', 'sent', 'failed'],
    description:
      'Delivery of the mail with the link. `none`: the installation sends no mail. `limited`: too many mails were sent to this address or for this organization, so invite the person again later. `failed`: the mail server rejected the address, or every attempt failed.',
  }),
};

export const invitationExample = {
  id: 'inv_01kzg3v5k2e4z9n7q8w6r5t4y6',
  organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4',
  email: 'grace@example.com',
  role: 'member',
  invited_by: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  created_at: '2026-01-15T09:30:00.000Z',
  expires_at: '2026-01-22T09:30:00.000Z',
  mail: 'sent',
};

export function invitationAnswer(row: InvitationRow): object {
  return { ...row, created_at: row.created_at.toISOString(), expires_at: row.expires_at.toISOString() };
}
