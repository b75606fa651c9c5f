/** Turns the second factor of the login on and off. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { CopyButton, Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { pathOf, plainDesign, shapeOf } from '#dashboard/qr-code.ts';
import { type TextKey, t } from '#dashboard/texts/text.ts';

type Step = '' | 'password' | 'code' | 'off';

export function SecondFactor({ isOn, isRequired }: { readonly isOn: boolean; readonly isRequired: boolean }) {
  const [step, setStep] = useState<Step>('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const client = useQueryClient();
  const done = async () => {
    setStep('');
    setCode('');
    setPassword('');
    await client.invalidateQueries({ queryKey: ['me'] });
  };
  const begin = useMutation({
    mutationFn: () => call('POST /me/totp', { body: password === '' ? {} : { password } }),
    onSuccess: () => setStep('code'),
  });
  const confirm = useMutation({
    mutationFn: () => call('POST /me/totp/confirm', { body: { totp_code: code.trim() } }),
    onSuccess: done,
  });
  const disable = useMutation({
    mutationFn: () => call('POST /me/totp/disable', { body: { totp_code: code.trim() } }),
    onSuccess: async () => {
      toast(t('factor2.now_off'));
      await done();
    },
  });
  return (
    <section className="card">
      <header>
        <h2>{t('factor2.title')}</h2>
        <span className={`tag push ${isOn ? 'good' : 'warn'}`}>{t(isOn ? 'factor2.on' : 'factor2.off')}</span>
      </header>
      <div className="inside stack">
        {confirm.data ? <RecoveryCodes codes={confirm.data.recovery_codes} /> : null}
        {step === '' ? (
          <>
            <p className="muted">{t(isOn ? 'factor2.about_on' : 'factor2.about_off')}</p>
            {isRequired ? <p className="notice small">{t('factor2.required')}</p> : null}
            <div>
              <button
                type="button"
                className={isOn ? '' : 'primary'}
                onClick={() => {
                  for (const one of [begin, confirm, disable]) one.reset();
                  setStep(isOn ? 'off' : 'password');
                }}
              >
                {t(isOn ? 'factor2.turn_off' : 'factor2.turn_on')}
              </button>
            </div>
          </>
        ) : null}
        {step === 'password' ? (
          <StepForm
            action={t('factor2.next')}
            isBusy={begin.isPending}
            error={begin.error}
            onSubmit={() => begin.mutate()}
            onCancel={() => setStep('')}
          >
            <Field
              label={t('login.password')}
              type="password"
              autoComplete="current-password"
              value={password}
              onChange={setPassword}
              fault={faultOf(begin.error, 'factor2.wrong_password')}
              hint={t('factor2.no_password')}
              hasFocus
            />
          </StepForm>
        ) : null}
        {step === 'code' && begin.data ? (
          <StepForm
            action={t('factor2.turn_on')}
            isBusy={confirm.isPending}
            error={confirm.error}
            onSubmit={() => confirm.mutate()}
            onCancel={() => setStep('')}
          >
            <p className="muted">{t('factor2.scan')}</p>
            <SecretCode url={begin.data.otpauth_url} />
            <div className="secret">
              <code>{begin.data.secret}</code>
              <CopyButton text={begin.data.secret} label={t('copy')} />
            </div>
            <CodeField code={code} onChange={setCode} error={confirm.error} />
          </StepForm>
        ) : null}
        {step === 'off' ? (
          <StepForm
            action={t('factor2.turn_off')}
            isBusy={disable.isPending}
            error={disable.error}
            onSubmit={() => disable.mutate()}
            onCancel={() => setStep('')}
          >
            <CodeField code={code} onChange={setCode} error={disable.error} />
          </StepForm>
        ) : null}
      </div>
    </section>
  );
}

/** The message, if the rejection concerns the entered value. */
function faultOf(error: unknown, text: TextKey): string | undefined {
  return error instanceof ApiFailure && error.status === 400 ? t(text) : undefined;
}

interface StepFormProps {
  readonly action: string;
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly onSubmit: () => void;
  readonly onCancel: () => void;
  readonly children: ReactNode;
}

function StepForm({ action, isBusy, error, onSubmit, onCancel, children }: StepFormProps) {
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {error && !(error instanceof ApiFailure && error.status === 400) ? <Failure error={error} /> : null}
      {children}
      <div className="row">
        <button type="submit" className="primary" disabled={isBusy}>
          {action}
        </button>
        <button type="button" onClick={onCancel}>
          {t('cancel')}
        </button>
      </div>
    </form>
  );
}

interface CodeFieldProps {
  readonly code: string;
  readonly onChange: (code: string) => void;
  readonly error: unknown;
}

function CodeField({ code, onChange, error }: CodeFieldProps) {
  return (
    <Field
      label={t('login.code')}
      value={code}
      onChange={onChange}
      fault={faultOf(error, 'login.wrong_code')}
      autoComplete="one-time-code"
      isRequired
      hasFocus
    />
  );
}

function SecretCode({ url }: { readonly url: string }) {
  const shape = shapeOf(url, plainDesign);
  const titleId = useId();
  return (
    <svg className="qrpreview small" role="img" aria-labelledby={titleId} viewBox={`0 0 ${shape.side} ${shape.side}`}>
      <title id={titleId}>{t('factor2.code')}</title>
      <rect width={shape.side} height={shape.side} fill="#fff" />
      <path d={pathOf(shape)} fill="#000" />
    </svg>
  );
}

function RecoveryCodes({ codes }: { readonly codes: readonly string[] }) {
  return (
    <div className="notice block">
      <p>
        <strong>{t('factor2.now_on')}</strong> {t('factor2.recovery')}
      </p>
      <ul className="codes mono">
        {codes.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
      <CopyButton text={codes.join('\n')} label={t('copy')} />
    </div>
  );
}
