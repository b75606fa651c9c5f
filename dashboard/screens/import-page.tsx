/** One import: the report of its dry run, its progress, and undo. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { time, whole } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { Confirm } from '#dashboard/parts/dialog.tsx';
import { Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { ImportState } from '#dashboard/parts/import-state.tsx';
import { type Import, showStored, useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { ImportRows } from './import-rows.tsx';

const workingMs = 1_000;
const working: readonly Import['state'][] = ['checking', 'importing', 'undoing'];

export function ImportPage({ id }: { readonly id: string }) {
  const found = useQuery({
    queryKey: ['import', id],
    queryFn: () => call('GET /imports/{import_id}', { params: { import_id: id } }),
    refetchInterval: ({ state }) => (state.data && working.includes(state.data.state) ? workingMs : false),
  });
  const { timezone } = useView();
  const app = useApps().data?.data.find((one) => one.id === found.data?.app_id);
  const canWrite = useCanWrite(app?.organization_id);
  if (found.isError && !found.data) return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Loading lines={8} />;
  const one = found.data;
  return (
    <div className="stack">
      <div className="head">
        <Link href="/integrations/imports">← {t('imports.title')}</Link>
        <h1>{named('imports.source', one.source)}</h1>
        <ImportState state={one.state} />
        <span className="muted small">
          {app?.name} · {time(one.created_at, timezone)}
        </span>
        {canWrite ? <Actions import={one} /> : null}
      </div>
      <Progress import={one} />
      {one.state === 'failed' ? (
        <p className="notice bad">{t('imports.failed', { problem: one.problem ?? '' })}</p>
      ) : null}
      {one.state === 'uploading' ? <p className="notice warn">{t('imports.interrupted')}</p> : null}
      {one.state === 'checked' && one.rows.new === 0 && one.rows.unsupported > 0 ? (
        <p className="notice warn">{t('imports.nothing')}</p>
      ) : null}
      <Counts import={one} />
      {one.progress.rows_read > 0 && one.state !== 'checking' ? (
        <ImportRows key={one.state} id={one.id} state={one.state} />
      ) : null}
    </div>
  );
}

interface ImportProps {
  readonly import: Import;
}

function Progress({ import: { state, progress, rows } }: ImportProps) {
  if (!working.includes(state)) return null;
  const [value, max] =
    state === 'checking'
      ? [progress.bytes_read, progress.bytes]
      : [progress.rows_done, Math.max(1, progress.rows_read)];
  const counts = { done: whole(progress.rows_done), total: whole(rows.new), read: whole(progress.rows_read) };
  return (
    <p className="notice row" role="status">
      <progress aria-label={t(`imports.state.${state}`)} value={value} max={Math.max(1, max)} />
      {state === 'checking' ? t('imports.read', counts) : t('imports.done', counts)}
    </p>
  );
}

const outcomes = ['new', 'same', 'conflict', 'unsupported'] as const;
const results = ['created', 'taken', 'removed', 'kept'] as const;

function Counts({ import: { rows, results: counts, state } }: ImportProps) {
  const isDone = state === 'imported' || state === 'undone' || state === 'undoing';
  return (
    <section className="card" aria-label={t('imports.report')}>
      <div className="totals four">
        {outcomes.map((name) => (
          <div className="total" key={name}>
            <span className="muted small">{t(`imports.outcome.${name}`)}</span>
            <output aria-label={t(`imports.outcome.${name}`)}>{whole(rows[name])}</output>
          </div>
        ))}
      </div>
      <div className="caption">
        {isDone
          ? results.map((name) => (
              <span key={name}>
                {t(`imports.result.${name}`)}: {whole(counts[name])}
              </span>
            ))
          : t('imports.about')}
      </div>
    </section>
  );
}

type Step = '' | 'confirm' | 'undo' | 'delete';

function Actions({ import: one }: ImportProps) {
  const [step, setStep] = useState<Step>('');
  const client = useQueryClient();
  const [, go] = useLocation();
  const params = { import_id: one.id };
  const onError = (error: unknown) => toast(failureText(error));
  const onSuccess = async (saved: Import) => {
    setStep('');
    await showStored(client, ['import', one.id], saved);
  };
  const confirm = useMutation({
    mutationFn: () => call('POST /imports/{import_id}/confirm', { params }),
    onSuccess,
    onError,
  });
  const undo = useMutation({
    mutationFn: () => call('POST /imports/{import_id}/undo', { params }),
    onSuccess,
    onError,
  });
  const remove = useMutation({
    mutationFn: () => call('DELETE /imports/{import_id}', { params }),
    onSuccess: async () => {
      toast(t('imports.deleted'));
      go('/integrations/imports');
      await client.invalidateQueries({ queryKey: ['imports'] });
    },
    onError,
  });
  const count = whole(one.rows.new);
  const ask = {
    confirm: [confirm, t('imports.confirm', { count }), t('imports.confirm_text', { count })],
    undo: [undo, t('imports.undo'), t('imports.undo_text', { count: whole(one.results.created) })],
    delete: [remove, t('delete'), t('imports.delete_text')],
  } as const;
  return (
    <span className="row wrap push">
      {one.state === 'checked' && one.rows.new > 0 ? (
        <button type="button" className="primary" onClick={() => setStep('confirm')}>
          {t('imports.confirm', { count })}
        </button>
      ) : null}
      {one.state === 'imported' && one.results.created > 0 ? (
        <button type="button" onClick={() => setStep('undo')}>
          {t('imports.undo')}
        </button>
      ) : null}
      {working.includes(one.state) ? null : (
        <button type="button" className="danger" onClick={() => setStep('delete')}>
          {t('delete')}
        </button>
      )}
      {step === '' ? null : (
        <Confirm
          title={t(`imports.${step}_title`)}
          text={ask[step][2]}
          action={ask[step][1]}
          isBusy={ask[step][0].isPending}
          isHarmless={step === 'confirm'}
          onConfirm={() => ask[step][0].mutate()}
          onClose={() => setStep('')}
        />
      )}
    </span>
  );
}
