/** A shared page as stored in Postgres and as members see it, without its token, which is returned only once. */
import { createHash, randomBytes } from 'node:crypto';
import { Type } from 'typebox';
import { nullable } from '#common/links/link-fields.ts';

export interface SharedPageRow {
  readonly id: string;
  readonly organization_id: string;
  readonly link_id: string | null;
  readonly campaign: string | null;
  readonly name: string;
  readonly has_password: boolean;
  readonly shows_revenue: boolean;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly expires_at: Date | null;
}

export const sharedPageColumns =
  'id, organization_id, link_id, campaign, name, password_hash IS NOT NULL AS has_password, shows_revenue, created_by, created_at, expires_at';

const tokenShape = /^[A-Za-z0-9_-]{43}$/;

/** 256 random bits, so that a plain hash of the token reveals nothing. */
export function newPageToken(): { readonly token: string; readonly hash: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, hash: hashOf(token) };
}

/** Null for text that is not a token and needs no lookup. */
export function hashOfPageToken(token: string): Buffer | null {
  return tokenShape.test(token) ? hashOf(token) : null;
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

export function sharedPageAnswer({ created_at, expires_at, ...fields }: SharedPageRow): object {
  return { ...fields, created_at: created_at.toISOString(), expires_at: expires_at?.toISOString() ?? null };
}

const time = Type.String({ format: 'date-time' });
export const sharedPageFields = {
  id: Type.String(),
  organization_id: Type.String(),
  link_id: nullable(Type.String({ description: 'null for a page about a campaign.' })),
  campaign: nullable(Type.String({ description: 'null for a page about a link.' })),
  name: Type.String(),
  has_password: Type.Boolean(),
  shows_revenue: Type.Boolean(),
  created_by: nullable(Type.String()),
  created_at: time,
  expires_at: nullable(Type.String({ format: 'date-time', description: 'When the page stops working.' })),
};

export const sharedPageExample = {
  id: 'shp_01kzg3v5k2e4z9n7q8w6r5t4y6',
  organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4',
  link_id: 'lnk_01kzg3v5k2e4z9n7q8w6r5t4y3',
  campaign: null,
  name: 'Spring sale',
  has_password: false,
  shows_revenue: false,
  created_by: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  created_at: '2026-01-15T09:30:00.000Z',
  expires_at: '2026-02-14T09:30:00.000Z',
};

export const tokenExample = 'Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA';
