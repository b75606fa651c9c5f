/** Learning links from an old service: the switch, the progress, and codes that could not be learned. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import { useDraft } from '#dashboard/draft.ts';
import { ago, share, whole } from '#dashboard/format.ts';
import { listOf, listText } from '#dashboard/list-text.ts';
import { Failure, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Field, useFaultFocus } from '#dashboard/parts/fields.tsx';
import { type App, showStored } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';

type Report = Answer<'GET /apps/{app_id}/migration'>;

export function AppMigration({ app, canWrite }: { readonly app: App; readonly canWrite: boolean }) {
  const isOn = app.settings.migration !== null;
  if (!isOn && !canWrite) return null;
  return (
    <section className="card">
      <header>
        <h2>{t('move.title')}</h2>
        <span className={`tag push ${isOn ? 'good' : ''}`}>{t(isOn ? 'move.on' : 'move.off')}</span>
      </header>
      <div className="inside stack">
        <p className="muted">{t('move.about')}</p>
        {isOn ? <Progress appId={app.id} /> : null}
        {canWrite ? <Setting app={app} /> : null}
      </div>
    </section>
  );
}

const draftOf = ({ settings: { migration } }: App) => ({
  url: migration?.url ?? '',
  via: migration?.via ?? '',
  hosts: listText(migration?.destination_hosts ?? []),
  upgrade: migration?.upgrade_http ?? false,
});
type Draft = ReturnType<typeof draftOf>;

function Setting({ app }: { readonly app: App }) {
  const { migration } = app.settings;
  const { draft, change, saved } = useDraft(draftOf(app));
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: async (sent: Draft | null) => {
      const asked = sent && {
        url: sent.url.trim(),
        via: sent.via.trim() || null,
        destination_hosts: listOf(sent.hosts),
        upgrade_http: sent.upgrade,
      };
      const body = { settings: { migration: asked } };
      return { sent, stored: await call('PATCH /apps/{id}', { params: { id: app.id }, body }) };
    },
    onSuccess: async ({ sent, stored }) => {
      saved(sent ?? draft, draftOf(stored));
      await showStored(client, ['app', app.id], stored);
      toast(t('saved'));
      await Promise.all(['apps', 'migration'].map((key) => client.invalidateQueries({ queryKey: [key] })));
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const faultOf = (field: string) => [...faults].find(([name]) => name.startsWith(`settings.migration.${field}`))?.[1];
  const form = useFaultFocus(save.error);
  return (
    <form
      className="stack"
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate(draft);
      }}
    >
      {save.isError && faults.size === 0 ? <Failure error={save.error} /> : null}
      <div className="grid3">
        <Field
          label={t('move.url')}
          value={draft.url}
          onChange={(url) => change({ url })}
          fault={faultOf('url')}
          placeholder="https://old.example.com/{code}"
          hint={t('move.url_hint', { code: '{code}' })}
          isRequired
        />
        <Field
          label={t('move.hosts')}
          value={draft.hosts}
          onChange={(hosts) => change({ hosts })}
          fault={faultOf('destination_hosts')}
          placeholder="www.example.com, shop.example.com"
          hint={t('move.hosts_hint')}
          isRequired
        />
        <Field
          label={t('move.via')}
          value={draft.via}
          onChange={(via) => change({ via })}
          fault={faultOf('via')}
          placeholder="cname.old.example.com"
          hint={t('move.via_hint')}
        />
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={draft.upgrade}
          onChange={(event) => change({ upgrade: event.currentTarget.checked })}
        />
        <span>{t('move.upgrade')}</span>
      </label>
      <div className="row">
        <button type="submit" className="primary" disabled={save.isPending}>
          {t(migration ? 'save' : 'move.switch_on')}
        </button>
        {migration ? (
          <button type="button" disabled={save.isPending} onClick={() => save.mutate(null)}>
            {t('move.switch_off')}
          </button>
        ) : null}
      </div>
    </form>
  );
}

function Progress({ appId }: { readonly appId: string }) {
  const report = useQuery({
    queryKey: ['migration', appId],
    queryFn: () => call('GET /apps/{app_id}/migration', { params: { app_id: appId } }),
  });
  if (report.isError && !report.data) return <Failure error={report.error} retry={() => void report.refetch()} />;
  if (!report.data) return <Loading lines={2} />;
  const { taps, codes, codes_total } = report.data;
  return (
    <div className="stack">
      <p>
        {taps.share_here === null
          ? t('move.no_taps')
          : t('move.share', {
              share: share(taps.share_here),
              learned: whole(taps.learned),
              missing: whole(taps.not_here),
            })}
      </p>
      {codes.length > 0 ? <Codes codes={codes} total={codes_total} /> : null}
    </div>
  );
}

const shownMax = 10;

function Codes({ codes, total }: { readonly codes: Report['codes']; readonly total: number }) {
  return (
    <div className="scroll">
      <table>
        <caption>{t('move.codes')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('move.code')}</th>
            <th scope="col" className="num">
              {t('move.visits')}
            </th>
            <th scope="col" className="hide-narrow">
              {t('move.asked')}
            </th>
          </tr>
        </thead>
        <tbody>
          {codes.slice(0, shownMax).map((one) => (
            <tr key={one.short_code}>
              <td className="wide">
                <div className="two">
                  <span className="strong breaks">{one.short_code}</span>
                  <span className="muted small breaks">
                    {named('move.why', one.reason)}
                    {one.detail === null ? '' : ` (${one.detail})`}
                  </span>
                </div>
              </td>
              <td className="num">{whole(one.visits)}</td>
              <td className="hide-narrow muted nowrap" title={one.last_at}>
                {ago(one.last_at)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > shownMax ? <p className="muted small">{t('move.more', { count: whole(total - shownMax) })}</p> : null}
    </div>
  );
}
