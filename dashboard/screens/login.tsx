import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { failureText } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { Brand } from '#dashboard/parts/icons.tsx';
import { announceSession } from '#dashboard/session-changes.ts';
import { t } from '#dashboard/texts/text.ts';

/** Asks for a code only once the API wants one. @param hasEnded the page was logged in before. */
export function Login({ hasEnded }: { readonly hasEnded: boolean }) {
  const client = useQueryClient();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const login = useMutation({
    mutationFn: () =>
      call('POST /session', { body: { email, password, ...(code === '' ? {} : { totp_code: code.trim() }) } }),
    onSuccess: async () => {
      announceSession();
      await client.resetQueries();
    },
  });
  const reason = login.error instanceof ApiFailure ? login.error.reason : '';
  const [wantsCode, setWantsCode] = useState(false);
  if (reason.startsWith('totp_') && !wantsCode) setWantsCode(true);
  const isQuestion = reason === 'totp_required';
  return (
    <main className="door">
      <Brand />
      <form
        className="card"
        onSubmit={(event) => {
          event.preventDefault();
          login.mutate();
        }}
      >
        <h1>{t('login.title')}</h1>
        {hasEnded && !login.isError ? <div className="notice warn small">{t('login.ended')}</div> : null}
        {login.isError && !isQuestion ? (
          <div className="notice bad small" role="alert">
            {reason === 'totp_invalid' ? t('login.wrong_code') : loginFault(login.error)}
          </div>
        ) : null}
        <Field
          label={t('login.email')}
          type="email"
          value={email}
          onChange={setEmail}
          autoComplete="username"
          isRequired
          hasFocus
        />
        <Field
          label={t('login.password')}
          type="password"
          value={password}
          onChange={setPassword}
          autoComplete="current-password"
          isRequired
        />
        {wantsCode ? (
          <Field
            label={t('login.code')}
            value={code}
            onChange={setCode}
            hint={t('login.code_hint')}
            autoComplete="one-time-code"
            isRequired
            hasFocus
          />
        ) : null}
        <button type="submit" className="primary large" disabled={login.isPending}>
          {t('login.submit')}
        </button>
      </form>
    </main>
  );
}

function loginFault(error: unknown): string {
  const isWrong = error instanceof ApiFailure && error.status === 401;
  return isWrong ? t('login.wrong') : failureText(error);
}
