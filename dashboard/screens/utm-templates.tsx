/** The list of UTM templates: named sets of parameters for new links. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { useCanWrite, useMe } from '#dashboard/me.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { Confirm } from '#dashboard/parts/dialog.tsx';
import { Empty, Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { useListPart } from '#dashboard/parts/integration-list.tsx';
import { LinkTabs } from '#dashboard/parts/link-tabs.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { type UtmTemplate, utmFields } from '#dashboard/utm.ts';
import { UtmTemplateForm } from './utm-template-form.tsx';

export function UtmTemplates() {
  const { get, set } = useAddress();
  const apps = useApps().data?.data ?? [];
  const canWrite = useCanWrite();
  const query = { ...useListPart(), app_id: get('app_id') ?? undefined };
  const found = useQuery({
    queryKey: ['utm-templates', query],
    queryFn: () => call('GET /utm-templates', { query }),
  });
  const [changed, setChanged] = useState<UtmTemplate | null>(null);
  const [removed, setRemoved] = useState<UtmTemplate | null>(null);
  const rows = found.data?.data ?? [];
  const pagination = found.data?.pagination;
  return (
    <div>
      <div className="head">
        <h1>{t('nav.links')}</h1>
        <div className="row push">
          {apps.length > 1 ? (
            <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id, offset: null })} />
          ) : null}
          {canWrite ? (
            <button type="button" className="primary" onClick={() => set({ new: '1' })}>
              <Icon name="plus" />
              {t('utm.new')}
            </button>
          ) : null}
        </div>
      </div>
      <LinkTabs />
      <p className="muted lead">{t('utm.text')}</p>
      {found.isError && !found.data ? (
        <Failure error={found.error} retry={() => void found.refetch()} />
      ) : (
        <section className="card">
          {found.isPending ? <Loading /> : null}
          {found.data && rows.length === 0 ? (
            <Empty title={t('utm.none')} text={t(canWrite ? 'utm.none_text' : 'utm.none_viewer')} />
          ) : null}
          {rows.length > 0 ? <TemplateTable rows={rows} onChange={setChanged} onRemove={setRemoved} /> : null}
          {pagination && pagination.total > pagination.limit ? (
            <Pager {...pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      )}
      {get('new') !== null && canWrite ? <UtmTemplateForm onClose={() => set({ new: null })} /> : null}
      {changed ? <UtmTemplateForm template={changed} onClose={() => setChanged(null)} /> : null}
      {removed ? <RemoveTemplate template={removed} onClose={() => setRemoved(null)} /> : null}
    </div>
  );
}

interface TemplateTableProps {
  readonly rows: readonly UtmTemplate[];
  readonly onChange: (template: UtmTemplate) => void;
  readonly onRemove: (template: UtmTemplate) => void;
}

function TemplateTable({ rows, onChange, onRemove }: TemplateTableProps) {
  const { organizations } = useMe();
  const apps = useApps().data?.data ?? [];
  const writable = new Set(organizations.filter(({ role }) => role !== 'viewer').map(({ id }) => id));
  const scopeOf = ({ app_id, organization_id }: UtmTemplate) =>
    app_id === null
      ? organizations.length > 1
        ? t('utm.every_app_of', { name: organizations.find(({ id }) => id === organization_id)?.name ?? '' })
        : t('utm.every_app')
      : (apps.find(({ id }) => id === app_id)?.name ?? app_id);
  return (
    <ScrollArea label={t('utm.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('app.name')}</th>
            <th className="hide-narrow">{t('utm.for')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((template) => (
            <tr key={template.id}>
              <td className="wide">
                <div className="two">
                  <span className="strong breaks">{template.name}</span>
                  <span className="row wrap">
                    {utmFields.map((name) =>
                      template[name] === null ? null : (
                        <span key={name} className="tag mono cut" title={`${name}=${template[name]}`}>
                          {name.slice('utm_'.length)}={template[name]}
                        </span>
                      ),
                    )}
                  </span>
                </div>
              </td>
              <td className="hide-narrow">{scopeOf(template)}</td>
              <td className="num">
                {writable.has(template.organization_id) ? (
                  <span className="row ends-row">
                    <button
                      type="button"
                      aria-label={t('utm.edit_named', { name: template.name })}
                      onClick={() => onChange(template)}
                    >
                      {t('edit')}
                    </button>
                    <button
                      type="button"
                      className="danger"
                      aria-label={t('utm.delete_named', { name: template.name })}
                      onClick={() => onRemove(template)}
                    >
                      {t('delete')}
                    </button>
                  </span>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}

function RemoveTemplate({ template, onClose }: { readonly template: UtmTemplate; readonly onClose: () => void }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => call('DELETE /utm-templates/{template_id}', { params: { template_id: template.id } }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['utm-templates'] });
      toast(t('utm.deleted'));
      onClose();
    },
    onError: (error) => toast(failureText(error)),
  });
  return (
    <Confirm
      title={t('utm.delete_title', { name: template.name })}
      text={t('utm.delete_text')}
      action={t('delete')}
      isBusy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    />
  );
}
