/** The user's own account: active logins and the second factor. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Suspense } from 'react';
import { useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { ago, time } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { screen } from '#dashboard/parts/screen-boundary.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { chooseLanguage, language, languages, t } from '#dashboard/texts/text.ts';
import { Password } from './password.tsx';

/** Loaded on demand, because it contains the QR code generator, which few visits need. */
const SecondFactor = screen(async () => ({ default: (await import('./second-factor.tsx')).SecondFactor }));

const sessionsMax = 100;

export function Account() {
  const { user, organizations } = useMe();
  return (
    <div className="stack narrow">
      <div className="head">
        <div>
          <h1>{t('account.title')}</h1>
          <p className="muted">{user.email}</p>
        </div>
      </div>
      {user.email_verified ? null : <p className="notice warn">{t('account.unverified')}</p>}
      <section className="card">
        <header>
          <h2>{t('account.organizations')}</h2>
        </header>
        <dl className="facts inside">
          {organizations.flatMap(({ id, name, role }) => [
            <dt key={id}>{name}</dt>,
            <dd key={`${id} `}>{t(`role.${role}`)}</dd>,
          ])}
        </dl>
      </section>
      <Suspense
        fallback={
          <section className="card">
            <Loading lines={2} />
          </section>
        }
      >
        <SecondFactor isOn={user.totp_enabled} isRequired={organizations.some((one) => one.totp_required)} />
      </Suspense>
      <Password />
      <section className="card">
        <header>
          <h2>{t('language')}</h2>
        </header>
        <div className="inside">
          <Choice label={t('language')} isLabelHidden value={language} options={languages} onChange={chooseLanguage} />
        </div>
      </section>
      <Sessions />
    </div>
  );
}

function Sessions() {
  const { timezone } = useView();
  const client = useQueryClient();
  const found = useQuery({
    queryKey: ['sessions'],
    queryFn: () => call('GET /sessions', { query: { limit: sessionsMax } }),
  });
  const end = useMutation({
    mutationFn: (session_id: string) => call('DELETE /sessions/{session_id}', { params: { session_id } }),
    onSuccess: async () => {
      toast(t('session.ended'));
      await client.invalidateQueries({ queryKey: ['sessions'] });
    },
    onError: (error) => toast(failureText(error)),
  });
  return (
    <section className="card">
      <header>
        <h2>{t('session.title')}</h2>
      </header>
      {found.isError && !found.data ? (
        <div className="inside">
          <Failure error={found.error} retry={() => void found.refetch()} />
        </div>
      ) : null}
      {found.isPending ? <Loading /> : null}
      {found.data ? (
        <ScrollArea label={t('session.title')}>
          <table>
            <thead>
              <tr>
                <th>{t('session.kind')}</th>
                <th>{t('session.begun')}</th>
                <th className="hide-narrow">{t('session.expires')}</th>
                <th>
                  <span className="sr">{t('links.actions')}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {found.data.data.map((login) => (
                <tr key={login.id}>
                  <td>
                    {t(`session.${login.kind}`)}{' '}
                    {login.is_current ? <span className="tag good">{t('session.current')}</span> : null}
                  </td>
                  <td title={time(login.created_at, timezone)}>{ago(login.created_at)}</td>
                  <td className="hide-narrow muted nowrap">{time(login.expires_at, timezone)}</td>
                  <td className="num">
                    {login.is_current ? null : (
                      <button type="button" disabled={end.isPending} onClick={() => end.mutate(login.id)}>
                        {t('session.end')}
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollArea>
      ) : null}
    </section>
  );
}
