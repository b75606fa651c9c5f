/** Email, password and, if the API requires it, a code. */
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { announceSession } from '#dashboard/session-changes.ts';
import { t } from '#dashboard/texts/text.ts';
import { failureText } from './feedback.tsx';
import { Field } from './fields.tsx';

interface LoginFormProps {
  /** The only account that can log in here. */
  readonly account?: string;
  readonly action: string;
  /** Shown until a login fails. */
  readonly notice?: string | undefined;
  /** Called when the browser has a session. */
  readonly onLogin: () => Promise<void>;
}

export function LoginForm({ account, action, notice, onLogin }: LoginFormProps) {
  const [typed, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const email = account ?? typed;
  const login = useMutation({
    meta: { isLogin: true },
    mutationFn: () =>
      call('POST /session', { body: { email, password, ...(code === '' ? {} : { totp_code: code.trim() }) } }),
    onSuccess: () => {
      announceSession();
      return onLogin();
    },
  });
  const reason = login.error instanceof ApiFailure ? login.error.reason : '';
  const [wantsCode, setWantsCode] = useState(false);
  if (reason.startsWith('totp_') && !wantsCode) setWantsCode(true);
  const isQuestion = reason === 'totp_required';
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        login.mutate();
      }}
    >
      {notice && !login.isError ? <div className="notice warn small">{notice}</div> : null}
      {login.isError && !isQuestion ? (
        <div className="notice bad small" role="alert">
          {reason === 'totp_invalid' ? t('login.wrong_code') : loginFault(login.error, account !== undefined)}
        </div>
      ) : null}
      <Field
        label={t('login.email')}
        type="email"
        value={email}
        onChange={setEmail}
        autoComplete="username"
        isRequired
        isReadOnly={account !== undefined}
        hasFocus={account === undefined}
      />
      <Field
        label={t('login.password')}
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="current-password"
        isRequired
        hasFocus={account !== undefined}
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
        {action}
      </button>
    </form>
  );
}

function loginFault(error: unknown, isAccountFixed: boolean): string {
  const isWrong = error instanceof ApiFailure && error.status === 401;
  if (!isWrong) return failureText(error);
  return t(isAccountFixed ? 'factor2.wrong_password' : 'login.wrong');
}
