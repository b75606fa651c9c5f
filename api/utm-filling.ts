/** Fills UTM fields of links from templates. The values are copied; a link keeps no reference to the template. */
import { UTM_FIELDS, type UtmField } from '#common/campaign-fields.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import type { LinkOwner } from '#common/links/link-creation.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';
import { tenantOf } from './access.ts';
import type { UserCaller } from './route.ts';

interface Fillable extends Readonly<Partial<Record<UtmField, string | null | undefined>>> {
  readonly utm_template_id?: string | undefined;
}
type Filled<L extends Fillable> = Omit<L, 'utm_template_id'>;

interface Template extends Readonly<Record<UtmField, string | null>> {
  readonly id: string;
  readonly organization_id: string;
  readonly app_id: string | null;
}

export type Templates = ReadonlyMap<string, Template>;

const named = `SELECT id, organization_id, app_id, ${UTM_FIELDS.join(', ')} FROM utm_templates
  WHERE organization_id = ANY ($1) AND id = ANY ($2)`;

/** The templates named by the links, if the caller may use them. */
export async function templatesOf(
  tenancy: Tenancy,
  caller: UserCaller,
  links: readonly (Fillable | null)[],
): Promise<Templates> {
  const ids = [...new Set(links.flatMap((link) => link?.utm_template_id ?? []))];
  if (ids.length === 0) return new Map();
  const found = await tenancy.within(tenantOf(caller), (tenant) => tenant.query<Template>(named, [ids]));
  return new Map(found.map((template) => [template.id, template]));
}

/** The link, with omitted fields filled from its template. A field that is null is not omitted. */
export function filledFrom<L extends Fillable>(templates: Templates, owner: LinkOwner, link: L): Filled<L> | Rejection {
  const { utm_template_id: id, ...fields } = link;
  if (id === undefined) return fields;
  const template = templates.get(id);
  const isUsable =
    template?.organization_id === owner.organization_id &&
    (template.app_id === null || template.app_id === owner.app_id);
  if (!isUsable) return invalid('utm_template_id', 'is not the id of a template of this app or of its organization');
  const missing = UTM_FIELDS.filter((name) => fields[name] === undefined && template[name] !== null);
  return { ...fields, ...Object.fromEntries(missing.map((name) => [name, template[name]])) };
}

/** Both for one link. */
export async function filled<L extends Fillable>(
  tenancy: Tenancy,
  caller: UserCaller,
  owner: LinkOwner,
  link: L,
): Promise<Filled<L> | Rejection> {
  return filledFrom(await templatesOf(tenancy, caller, [link]), owner, link);
}
