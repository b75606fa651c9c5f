/** A UTM template: named UTM parameters of an organization or of one of its apps, for new links. */
import { Type } from 'typebox';
import { absent, ownerOf, tenantOf, unknownId } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { UserCaller } from '#api/route.ts';
import { UTM_FIELDS, type UtmField, utmFrom } from '#common/campaign-fields.ts';
import { forbidden, invalid, Rejection } from '#common/http/rejection.ts';
import { CAMPAIGN_CHARACTERS_MAX, nullable } from '#common/links/link-fields.ts';
import { violatedConstraint } from '#common/stores/postgres.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';

export interface TemplateRow extends Readonly<Record<UtmField, string | null>> {
  readonly id: string;
  readonly organization_id: string;
  readonly app_id: string | null;
  readonly name: string;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export const templateColumns = `id, organization_id, app_id, name, ${UTM_FIELDS.join(', ')}, created_by, created_at, updated_at`;

/** Not of blanks alone. */
const utmText = () => nullable(Type.String({ maxLength: CAMPAIGN_CHARACTERS_MAX, pattern: '^$|\\S' }));

export const templateFields = {
  app_id: nullable(
    Type.String({
      description: 'The app whose links can use the template; null: all apps of the organization.',
      examples: ['app_01j9z3k4m5n6p7q8r9s0t1v2w3'],
    }),
  ),
  name: Type.String({
    minLength: 1,
    maxLength: 100,
    format: 'visible',
    examples: ['Newsletter'],
    description: 'Unique among the templates of the same app, or among those of the whole organization.',
  }),
  ...utmFrom(utmText),
};

type Writable = Pick<TemplateRow, 'app_id' | 'name' | UtmField>;

/** Its texts as stored: the name trimmed, and null instead of empty parameters. */
export function storedTemplate(given: Writable): Writable {
  return { app_id: given.app_id, name: given.name.trim(), ...utmFrom((name) => given[name] || null) };
}

export function refuseEmpty(template: Writable): Rejection | null {
  if (UTM_FIELDS.some((name) => template[name] !== null)) return null;
  return invalid('body', 'a template needs at least one UTM parameter');
}

/**
 * Null if the app belongs to the tenant (it cannot be deleted before the transaction ends), or if no app is given and
 * the caller's key is not limited to some apps.
 */
export async function refuseScope(
  tenant: TenantQueries,
  caller: UserCaller,
  appId: string | null,
): Promise<Rejection | null> {
  if (appId === null) {
    const isLimited = caller.key !== undefined && caller.key.app_ids !== null;
    return isLimited ? onlyItsApps() : null;
  }
  const sql = 'SELECT id FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL FOR SHARE';
  const [app] = await tenant.query(sql, [appId]);
  return app ? null : absent(tenant, 'app', appId);
}

const onlyItsApps = () => forbidden('This server key is limited to some apps, and this template is for all apps.');

/** Runs a write, and reports the field if the name belongs to another template. */
export async function withUniqueName<T>(work: () => Promise<T>): Promise<T | Rejection> {
  try {
    return await work();
  } catch (error) {
    if (violatedConstraint(error) !== 'utm_templates_name_key') throw error;
    return invalid('name', 'is already used by another template of this app or organization');
  }
}

export const templateParams = Type.Object({
  template_id: Type.String({ examples: ['utm_01j9z3k4m5n6p7q8r9s0t1v2w3'] }),
});

const time = Type.String({ format: 'date-time' });
export const templateSchema = Type.Object(
  {
    id: Type.String(),
    organization_id: Type.String(),
    ...templateFields,
    created_by: nullable(
      Type.String({ description: 'The user who created it; null if it was a server key or the user was deleted.' }),
    ),
    created_at: time,
    updated_at: time,
  },
  { title: 'UtmTemplate' },
);

export const templateExample = {
  id: 'utm_01j9z3k4m5n6p7q8r9s0t1v2w3',
  organization_id: 'org_01j9z3k4m5n6p7q8r9s0t1v2w3',
  app_id: null,
  name: 'Newsletter',
  utm_source: 'newsletter',
  utm_medium: 'email',
  utm_campaign: null,
  utm_term: null,
  utm_content: null,
  created_by: 'usr_01j9z3k4m5n6p7q8r9s0t1v2w3',
  created_at: '2026-01-15T09:30:00.000Z',
  updated_at: '2026-01-15T09:30:00.000Z',
};

export function templateAnswer({ created_at, updated_at, ...row }: TemplateRow): object {
  return { ...row, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() };
}

/**
 * Works on a template of one of the caller's organizations, in a transaction: 404 if it does not exist; 403 if it
 * belongs to another organization, if a viewer wants to change it, and for a server key of other apps.
 */
export async function withTemplate<T>(
  { db, tenancy }: ApiDeps,
  caller: UserCaller,
  { id, isChange }: { readonly id: string; readonly isChange: boolean },
  work: (tenant: TenantQueries, template: TemplateRow) => Promise<T>,
): Promise<T | Rejection> {
  const owner = await ownerOf(db, caller, { kind: 'utm', id, to: isChange ? 'write' : 'read' });
  if (owner instanceof Rejection) return owner;
  return tenancy.within(tenantOf(caller, [owner]), async (tenant) => {
    const [template] = await tenant.query<TemplateRow>(byId, [id]);
    if (!template) return caller.key ? forbidden('This server key has no access to this template.') : unknownId('utm');
    const appIds = caller.key?.app_ids ?? null;
    const isOfOthers = appIds !== null && (template.app_id === null || !appIds.includes(template.app_id));
    return isChange && isOfOthers ? onlyItsApps() : work(tenant, template);
  });
}

const byId = `SELECT ${templateColumns} FROM utm_templates WHERE organization_id = ANY ($1) AND id = $2`;

/** Locked until the transaction ends. Locked after the app's row, in the same order as when an app is deleted. */
export async function lockTemplate(tenant: TenantQueries, id: string): Promise<TemplateRow | Rejection> {
  const [template] = await tenant.query<TemplateRow>(`${byId} FOR UPDATE`, [id]);
  return template ?? unknownId('utm');
}
