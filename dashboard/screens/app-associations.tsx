/**
 * The files that let iOS and Android open links in the app: which of them are served, what is missing, and what phones
 * get.
 */
import { useMutation } from '@tanstack/react-query';
import { type Answer, call } from '#dashboard/api.ts';
import { Failure } from '#dashboard/parts/feedback.tsx';
import type { App } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';

type CheckedFile = Answer<'POST /apps/{app_id}/check-associations'>['files'][number];

export function AppAssociations({ app }: { readonly app: App }) {
  const check = useMutation({
    mutationFn: () => call('POST /apps/{app_id}/check-associations', { params: { app_id: app.id } }),
  });
  return (
    <section className="card">
      <header>
        <h2>{t('files.title')}</h2>
        <button
          type="button"
          className="push"
          title={t('check.about')}
          disabled={check.isPending}
          onClick={() => check.mutate()}
        >
          {t(check.isPending ? 'check.checking' : 'check.check')}
        </button>
      </header>
      <Expected app={app} />
      {check.isError ? (
        <div className="inside">
          <Failure error={check.error} />
        </div>
      ) : null}
      <div role="status" className={check.data ? 'inside' : undefined}>
        {check.data ? <Result files={check.data.files} /> : null}
      </div>
    </section>
  );
}

/** The state according to the settings, without requests. */
function Expected({ app }: { readonly app: App }) {
  const isServed = app.host_verification.status === 'verified';
  const ios = app.ios?.team_id ? '' : t(app.ios ? 'files.no_team' : 'files.no_ios');
  const android = app.android?.sha256_cert_fingerprints.length
    ? ''
    : t(app.android ? 'files.no_fingerprint' : 'files.no_android');
  const files = [
    ['apple-app-site-association', ios],
    ['assetlinks.json', android],
  ] as const;
  return (
    <div className="scroll">
      <table>
        <tbody>
          {files.map(([file, missing]) => (
            <tr key={file}>
              <td>
                <a href={`https://${app.host}/.well-known/${file}`} target="_blank" rel="noreferrer">
                  /.well-known/{file}
                </a>
              </td>
              <td>
                {missing === '' && isServed ? (
                  <span className="tag good">{t('files.served')}</span>
                ) : (
                  <span className="tag warn">{t('files.missing')}</span>
                )}
              </td>
              <td className="muted">{missing || (isServed ? '' : t('files.no_host'))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const outcomeTags = { good: 'tag good', faulty: 'tag bad', not_checked: 'tag' } as const;

function Result({ files }: { readonly files: readonly CheckedFile[] }) {
  return (
    <ul className="stack" aria-label={t('check.result')}>
      {files.map((one) => (
        <li key={`${one.file} ${one.source}`} className="stack tight">
          <span className="row wrap">
            <strong>{one.file}</strong>
            <span className="muted">{named('check.source', one.source)}</span>
            <span className={outcomeTags[one.outcome]}>{named('check.outcome', one.outcome)}</span>
          </span>
          {one.problems.map((problem) => (
            <span key={problem}>{named('check.problem', problem)}</span>
          ))}
          <Details checked={one} />
        </li>
      ))}
    </ul>
  );
}

/** The HTTP response. */
function Details({ checked }: { readonly checked: CheckedFile }) {
  const { status, content_type, location, headers, outcome } = checked;
  if (status === null || outcome === 'good') return null;
  const shown = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <span className="small muted breaks">
      {t('check.answer', { status, type: content_type ?? t('check.no_type') })}{' '}
      {location === null ? '' : t('check.location', { url: location })} {shown.join(', ')}
    </span>
  );
}
