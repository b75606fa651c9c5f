/** Shares the statistics of a link or campaign at a secret URL, and lists and revokes shared pages. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ownZone } from '#dashboard/address.ts';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import { ago, date } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { CopyButton, Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

type Shared = Answer<'GET /shared-pages'>['data'][number];

type About = { readonly link_id: string } | { readonly campaign: string; readonly organization_id?: string };

interface ShareProps {
  readonly link: Link;
  readonly onClose: () => void;
}

const listedMax = 50;
const ends = ['7', '30', '90', '365', ''] as const;
const dayMs = 86_400_000;

export function Share({ link, onClose }: ShareProps) {
  const [created, setCreated] = useState<string | null>(null);
  const [subject, setSubject] = useState<'link' | 'campaign'>('link');
  const organization = useApps().data?.data.find(({ id }) => id === link.app_id)?.organization_id;
  const { campaign } = link;
  const about: About =
    subject === 'link' || campaign === null
      ? { link_id: link.id }
      : { campaign, ...(organization ? { organization_id: organization } : {}) };
  const name = (subject === 'campaign' ? campaign : link.title) || link.short_code;
  return (
    <Dialog title={t('share.title')} isDrawer onClose={onClose}>
      <div className="fields">
        <p className="muted small">{t('share.text')}</p>
        {campaign === null || created !== null ? null : (
          <Choice
            label={t('share.subject')}
            value={subject}
            options={[
              ['link', t('share.this_link')],
              ['campaign', t('share.campaign', { name: campaign })],
            ]}
            onChange={setSubject}
          />
        )}
        {created === null ? (
          <NewPage key={subject} about={about} name={name} onCreated={setCreated} />
        ) : (
          <div className="stack tight">
            <p className="notice warn">{t('share.once')}</p>
            <div className="secret">
              <code>{created}</code>
              <CopyButton text={created} label={t('copy')} />
            </div>
          </div>
        )}
        <SharedList about={about} />
      </div>
      <footer>
        <button type="button" onClick={onClose}>
          {t('done')}
        </button>
      </footer>
    </Dialog>
  );
}

interface NewPageProps {
  readonly about: About;
  readonly name: string;
  readonly onCreated: (url: string) => void;
}

function NewPage({ about, name: firstName, onCreated }: NewPageProps) {
  const [name, setName] = useState(firstName.slice(0, 100));
  const [days, setDays] = useState<(typeof ends)[number]>('30');
  const [password, setPassword] = useState('');
  const [showsRevenue, setShowsRevenue] = useState(false);
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      call('POST /shared-pages', {
        body: {
          ...about,
          ...(name.trim() === '' ? {} : { name }),
          ...(password === '' ? {} : { password }),
          ...(days === '' ? {} : { expires_at: new Date(Date.now() + Number(days) * dayMs).toISOString() }),
          shows_revenue: showsRevenue,
        },
      }),
    onSuccess: async ({ url }) => {
      onCreated(url);
      await client.invalidateQueries({ queryKey: ['shared-pages'] });
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      {save.isError && !faults.has('password') && !faults.has('name') ? <Failure error={save.error} /> : null}
      <Field
        label={t('app.name')}
        value={name}
        onChange={setName}
        fault={faults.get('name')}
        hint={t('share.name_hint')}
        hasFocus
      />
      <Choice
        label={t('keys2.expires')}
        value={days}
        options={ends.map((one) => [one, one === '' ? t('keys2.no_end') : t('keys2.days', { count: one })] as const)}
        onChange={setDays}
      />
      <Field
        label={t('share.password')}
        type="password"
        value={password}
        onChange={setPassword}
        fault={faults.get('password')}
        hint={t('share.password_hint')}
        autoComplete="new-password"
      />
      <label className="check">
        <input
          type="checkbox"
          checked={showsRevenue}
          onChange={(event) => setShowsRevenue(event.currentTarget.checked)}
        />
        <span>{t('share.revenue')}</span>
      </label>
      <button type="submit" className="primary" disabled={save.isPending}>
        {t('share.create')}
      </button>
    </form>
  );
}

function SharedList({ about }: Pick<NewPageProps, 'about'>) {
  const query = { ...about, limit: listedMax };
  const pages = useQuery({ queryKey: ['shared-pages', query], queryFn: () => call('GET /shared-pages', { query }) });
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: (id: string) => call('DELETE /shared-pages/{page_id}', { params: { page_id: id } }),
    onSuccess: async () => {
      toast(t('share.revoked'));
      await client.invalidateQueries({ queryKey: ['shared-pages'] });
    },
    onError: (error) => toast(failureText(error)),
  });
  if (pages.isError && !pages.data) return <Failure error={pages.error} retry={() => void pages.refetch()} />;
  if (!pages.data) return <Loading lines={2} />;
  if (pages.data.data.length === 0) return null;
  return (
    <section className="stack tight" aria-label={t('share.list')}>
      <h3>{t('share.list')}</h3>
      <ul className="shares">
        {pages.data.data.map((page) => (
          <li key={page.id} className="row">
            <div className="two">
              <span className="strong cut">{page.name}</span>
              <span className="muted small">{stateOf(page)}</span>
            </div>
            <button
              type="button"
              className="danger push"
              aria-label={t('share.revoke_of', { name: page.name })}
              disabled={revoke.isPending}
              onClick={() => revoke.mutate(page.id)}
            >
              {t('share.revoke')}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function stateOf({ created_at, expires_at: end, has_password }: Shared): string {
  const expiry =
    end === null
      ? t('keys2.no_end')
      : Date.parse(end) <= Date.now()
        ? t('link.expired')
        : t('shared.until', { date: date(end, ownZone) });
  return [ago(created_at), expiry, has_password ? t('share.with_password') : '']
    .filter((one) => one !== '')
    .join(' · ');
}
