/** Accepting an invitation: with a new account, with the account of this browser's session, or after a login. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import { useLinkToken } from '#dashboard/link-token.ts';
import type { Me } from '#dashboard/me.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { Brand } from '#dashboard/parts/icons.tsx';
import { LoginForm } from '#dashboard/parts/login-form.tsx';
import { announceSession } from '#dashboard/session-changes.ts';
import { t } from '#dashboard/texts/text.ts';

type Found = Answer<'POST /auth/invitations/look-up'>;

export function Invitation({ me }: { readonly me: Me | null }) {
  const { token, isWhole } = useLinkToken();
  const invitation = useQuery({
    queryKey: ['invitation', token],
    queryFn: () => call('POST /auth/invitations/look-up', { body: { token } }),
    enabled: isWhole,
    // Another lookup would use one of the few requests that a login also needs.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: Number.POSITIVE_INFINITY,
    retry: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  return (
    <main className="door">
      <Brand />
      <div className="card">
        {isWhole ? (
          <Step me={me} token={token} found={invitation.data} error={invitation.error} retry={invitation.refetch} />
        ) : (
          <>
            <h1>{t('invitation.broken')}</h1>
            <p>{t('invitation.broken_text')}</p>
          </>
        )}
      </div>
    </main>
  );
}

interface StepProps {
  readonly me: Me | null;
  readonly token: string;
  readonly found: Found | undefined;
  readonly error: unknown;
  readonly retry: () => unknown;
}

function Step({ me, token, found, error, retry }: StepProps) {
  const [saysSo, setSaysSo] = useState(false);
  // The invitation was used here or in another tab, so it is no longer needed.
  const joined = found && me?.all.find(({ id }) => id === found.organization_id);
  if (joined && me?.user.email === found.email) return <Joined me={me} organization={joined} />;
  if (error instanceof ApiFailure && error.status === 404) return <Gone isLoggedIn={me !== null} />;
  if (error) return <Failure error={error} retry={() => void retry()} />;
  if (!found) return <Loading lines={3} />;
  const isOther = me !== null && me.user.email !== found.email;
  return (
    <>
      <h1>{t('invitation.title', { name: found.organization_name })}</h1>
      <p>{t('invitation.text', { role: t(`role.${found.role}`) })}</p>
      <p className="muted small">{t(`invitation.${found.role}`)}</p>
      {isOther ? (
        <p className="notice warn small">{t('invitation.other', { mine: me.user.email, email: found.email })}</p>
      ) : null}
      {found.has_account || saysSo || (me !== null && !isOther) ? (
        <Join token={token} found={found} isLoggedIn={me !== null && !isOther} />
      ) : (
        <NewAccount token={token} found={found} onHasAccount={() => setSaysSo(true)} />
      )}
    </>
  );
}

function Gone({ isLoggedIn }: { readonly isLoggedIn: boolean }) {
  return (
    <>
      <h1>{t('invitation.gone')}</h1>
      <p>{t('invitation.gone_text')}</p>
      <Enter>{t(isLoggedIn ? 'invitation.open' : 'login.title')}</Enter>
    </>
  );
}

type JoinedProps = { readonly me: Me; readonly organization: Me['all'][number] };

function Joined({ me, organization: { name, role, totp_required } }: JoinedProps) {
  const lacksFactor = totp_required && !me.user.totp_enabled;
  return (
    <>
      <h1>{t('invitation.joined', { name })}</h1>
      <p>{t('invitation.text', { role: t(`role.${role}`) })}</p>
      {lacksFactor ? <p className="notice warn small">{t('invitation.factor')}</p> : null}
      {lacksFactor ? <Enter to="/account">{t('factor2.turn_on')}</Enter> : <Enter>{t('invitation.open')}</Enter>}
    </>
  );
}

function Enter({ to = '/', children }: { readonly to?: string; readonly children: ReactNode }) {
  return (
    <Link href={to} className="button primary large">
      {children}
    </Link>
  );
}

/** Asks again who is logged in, and drops data of another user. */
function useNewSession(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    client.removeQueries({ predicate: ({ queryKey: [first] }) => first !== 'me' && first !== 'invitation' });
    await client.refetchQueries({ queryKey: ['me'] });
  };
}

interface AcceptProps {
  readonly token: string;
  readonly found: Found;
}

/** For an address with an account. */
function Join({ token, found, isLoggedIn }: AcceptProps & { readonly isLoggedIn: boolean }) {
  const renewed = useNewSession();
  const join = useMutation({
    mutationFn: () => call('POST /me/invitations', { body: { token } }),
    onSuccess: announceSession,
    // Also after a failure: another tab may have joined.
    onSettled: renewed,
  });
  const isGone = join.error instanceof ApiFailure && join.error.status === 404;
  if (isGone && !join.isPending) return <p className="notice bad small">{t('invitation.gone_text')}</p>;
  if (!isLoggedIn && !join.isPending) {
    return <LoginForm account={found.email} action={t('invitation.login')} onLogin={async () => join.mutate()} />;
  }
  return (
    <>
      {join.isError ? <Failure error={join.error} /> : null}
      <button type="button" className="primary large" disabled={join.isPending} onClick={() => join.mutate()}>
        {t('invitation.join')}
      </button>
      <p className="muted small">{t('invitation.as', { email: found.email })}</p>
    </>
  );
}

/** For an address without an account, or of which only its owner knows whether it has one. */
function NewAccount({ token, found, onHasAccount }: AcceptProps & { readonly onHasAccount: () => void }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const renewed = useNewSession();
  const enter = async () => {
    await call('POST /session', { body: { email: found.email, password } });
    announceSession();
    await renewed();
  };
  const [isCreated, setCreated] = useState(false);
  const create = useMutation({
    mutationFn: async () => {
      await call('POST /auth/invitations/accept', { body: { token, name, password } });
      setCreated(true);
      // If this fails, the form below asks for the password again.
      await enter().catch(() => undefined);
    },
    // Another tab may have used the invitation.
    onError: renewed,
  });
  const failure = create.error instanceof ApiFailure ? create.error : null;
  const fault = failure?.fields.get('password');
  if (failure?.status === 404) return <p className="notice bad small">{t('invitation.gone_text')}</p>;
  if (failure?.reason === 'account_exists') return <Join token={token} found={found} isLoggedIn={false} />;
  if (isCreated && !create.isPending) {
    const notice = t('invitation.created');
    return <LoginForm account={found.email} action={t('login.submit')} notice={notice} onLogin={renewed} />;
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      {create.isError && fault === undefined ? <Failure error={create.error} /> : null}
      <Field
        label={t('login.email')}
        type="email"
        value={found.email}
        onChange={() => undefined}
        autoComplete="username"
        isReadOnly
      />
      <Field label={t('invitation.name')} value={name} onChange={setName} autoComplete="name" hasFocus />
      <Field
        label={t('login.password')}
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="new-password"
        hint={t('password.hint')}
        fault={fault}
        isRequired
      />
      <button type="submit" className="primary large" disabled={create.isPending}>
        {t('invitation.create')}
      </button>
      <button type="button" onClick={onHasAccount}>
        {t('invitation.has_account')}
      </button>
    </form>
  );
}
