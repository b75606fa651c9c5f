/** The drawer for creating or editing a UTM template. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { changedFields } from '#dashboard/form-changes.ts';
import { useMe } from '#dashboard/me.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field, useFaultFocus } from '#dashboard/parts/fields.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { type UtmTemplate, utmDraftOf, utmExamples, utmFields } from '#dashboard/utm.ts';

interface UtmTemplateFormProps {
  /** Absent: creates a new one. */
  readonly template?: UtmTemplate;
  readonly onClose: () => void;
}

export function UtmTemplateForm({ template, onClose }: UtmTemplateFormProps) {
  const scopes = useScopes(template);
  const [name, setName] = useState(template?.name ?? '');
  const [scope, setScope] = useState(template?.app_id ?? template?.organization_id);
  const [draft, setDraft] = useState(() => utmDraftOf(template));
  const [before] = useState({ name, app_id: template?.app_id ?? null, ...draft });
  const client = useQueryClient();
  const chosen = scopes.find(({ value }) => value === scope) ?? scopes[0];
  const save = useMutation({
    mutationFn: async () => {
      // Its app may be unknown here.
      const app_id = template && chosen?.value !== scope ? template.app_id : (chosen?.app_id ?? null);
      const body = { name, app_id, ...draft };
      if (!template)
        return await call('POST /utm-templates', {
          body: { ...body, organization_id: chosen?.organization_id ?? '' },
        });
      const changes = changedFields(body, before);
      if (Object.keys(changes).length === 0) return template;
      return await call('PATCH /utm-templates/{template_id}', { params: { template_id: template.id }, body: changes });
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['utm-templates'] });
      toast(t('saved'));
      onClose();
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const isShownAtField = ['name', ...utmFields].some((field) => faults.has(field));
  const form = useFaultFocus(save.error);
  const isEmpty = utmFields.every((field) => draft[field].trim() === '');
  return (
    <Dialog title={t(template ? 'utm.edit' : 'utm.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && !isShownAtField ? <Failure error={save.error} /> : null}
          <Field
            label={t('app.name')}
            value={name}
            onChange={setName}
            fault={faults.get('name')}
            placeholder={t('utm.name_example')}
            isRequired
            hasFocus
          />
          {scopes.length > 1 ? (
            <Choice
              label={t('utm.for')}
              value={chosen?.value ?? ''}
              options={scopes.map(({ value, text }) => [value, text] as const)}
              onChange={setScope}
            />
          ) : null}
          {utmFields.map((field) => (
            <Field
              key={field}
              label={field}
              value={draft[field]}
              onChange={(value) => setDraft({ ...draft, [field]: value })}
              fault={faults.get(field)}
              placeholder={utmExamples[field]}
            />
          ))}
          <p className="hint">{t('utm.fields_hint')}</p>
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending || isEmpty}>
            {t(template ? 'save' : 'utm.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface Scope {
  readonly value: string;
  readonly text: string;
  readonly organization_id: string;
  readonly app_id: string | null;
}

/**
 * The possible scopes of a template: each organization as a whole, then each of its apps. An existing template stays in
 * its organization.
 */
function useScopes(template: UtmTemplate | undefined): readonly Scope[] {
  const { organizations } = useMe();
  const apps = useApps().data?.data ?? [];
  const possible = organizations.filter(
    ({ id, role }) => role !== 'viewer' && (template === undefined || template.organization_id === id),
  );
  return possible.flatMap((organization) => {
    const { id: organization_id, name } = organization;
    const text = possible.length > 1 ? t('utm.every_app_of', { name }) : t('utm.every_app');
    const own = apps.filter((app) => app.organization_id === organization_id);
    return [
      { value: organization_id, text, organization_id, app_id: null },
      ...own.map((app) => ({ value: app.id, text: app.name, organization_id, app_id: app.id })),
    ];
  });
}
