/** Password reset: asks for the address, and is the page that the link in the mail opens. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import { ApiFailure, call } from '#dashboard/api.ts';
import { useLinkToken } from '#dashboard/link-token.ts';
import { Failure } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { Brand } from '#dashboard/parts/icons.tsx';
import { announceSession } from '#dashboard/session-changes.ts';
import { language, t } from '#dashboard/texts/text.ts';

export function PasswordReset() {
  const { token, isWhole } = useLinkToken();
  const [asksAgain, setAsksAgain] = useState(false);
  return (
    <main className="door">
      <Brand />
      <div className="card">
        {token === '' || asksAgain ? (
          <Ask />
        ) : isWhole ? (
          <Choose key={token} token={token} onAgain={() => setAsksAgain(true)} />
        ) : (
          <Broken />
        )}
      </div>
    </main>
  );
}

function Broken() {
  return (
    <>
      <h1>{t('invitation.broken')}</h1>
      <p>{t('invitation.broken_text')}</p>
    </>
  );
}

function ToLogin({ children }: { readonly children: ReactNode }) {
  return (
    <Link href="/" className="button">
      {children}
    </Link>
  );
}

function Ask() {
  const [email, setEmail] = useState('');
  const ask = useMutation({
    mutationFn: () => call('POST /auth/password-reset', { body: { email: email.trim(), language } }),
  });
  const sendsNone = ask.error instanceof ApiFailure && ask.error.reason === 'mail_not_configured';
  if (ask.data) {
    return (
      <>
        <h1>{t('reset.sent')}</h1>
        <p>{t('reset.sent_text', { email: email.trim() })}</p>
        <ToLogin>{t('login.title')}</ToLogin>
      </>
    );
  }
  return (
    <>
      <h1>{t('reset.title')}</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          ask.mutate();
        }}
      >
        {sendsNone ? <p className="notice warn small">{t('reset.no_mail')}</p> : null}
        {ask.isError && !sendsNone ? <Failure error={ask.error} /> : null}
        <Field
          label={t('login.email')}
          type="email"
          value={email}
          onChange={setEmail}
          autoComplete="username"
          hint={t('reset.hint')}
          isRequired
          hasFocus
        />
        <button type="submit" className="primary large" disabled={ask.isPending}>
          {t('reset.ask')}
        </button>
      </form>
      <ToLogin>{t('reset.back')}</ToLogin>
    </>
  );
}

function Choose({ token, onAgain }: { readonly token: string; readonly onAgain: () => void }) {
  const [password, setPassword] = useState('');
  const client = useQueryClient();
  const choose = useMutation({
    mutationFn: () => call('POST /auth/password-reset/confirm', { body: { token, password } }),
    onSuccess: () => {
      // Every login of the account has ended, possibly including the one of this browser.
      announceSession();
      return client.refetchQueries({ queryKey: ['me'] });
    },
  });
  const failure = choose.error instanceof ApiFailure ? choose.error : null;
  const fault = failure?.fields.get('password');
  if (choose.data) {
    return (
      <>
        <h1>{t('password.changed')}</h1>
        <p>{t('reset.done', { email: choose.data.email })}</p>
        <ToLogin>{t('login.title')}</ToLogin>
      </>
    );
  }
  if (failure?.status === 404) {
    return (
      <>
        <h1>{t('reset.gone')}</h1>
        <p>{t('reset.gone_text')}</p>
        <button type="button" className="primary large" onClick={onAgain}>
          {t('reset.again')}
        </button>
      </>
    );
  }
  return (
    <>
      <h1>{t('reset.title')}</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          choose.mutate();
        }}
      >
        {choose.isError && fault === undefined ? <Failure error={choose.error} /> : null}
        <Field
          label={t('password.new')}
          type="password"
          value={password}
          onChange={setPassword}
          autoComplete="new-password"
          hint={t('password.hint')}
          fault={fault}
          isRequired
          hasFocus
        />
        <p className="muted small">{t('password.ends')}</p>
        <button type="submit" className="primary large" disabled={choose.isPending}>
          {t('password.change')}
        </button>
      </form>
    </>
  );
}
