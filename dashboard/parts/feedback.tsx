/** Loading, error and empty states, and short confirmations. */
import { type ReactNode, useEffect, useState } from 'react';
import { ApiFailure } from '#dashboard/api.ts';
import { t } from '#dashboard/texts/text.ts';
import { Icon } from './icons.tsx';

export function Loading({ lines = 4 }: { readonly lines?: number }) {
  return (
    <div className="inside stack" role="status" aria-label={t('loading')}>
      {Array.from({ length: lines }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines have no identity and never move
        <span className="loading" key={at}>
          …
        </span>
      ))}
    </div>
  );
}

/** What happened, what to do, and the request id to quote. */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  const failure = error instanceof ApiFailure ? error : null;
  return (
    <div className="notice bad" role="alert">
      <span>{failureText(error)}</span>
      {failure?.requestId && failure.status >= 500 ? (
        <span className="small mono">{t('failure.request', { id: failure.requestId })}</span>
      ) : null}
      {retry ? (
        <button type="button" className="push" onClick={retry}>
          {t('retry')}
        </button>
      ) : null}
    </div>
  );
}

export function failureText(error: unknown): string {
  if (!(error instanceof ApiFailure)) return t('failure.own');
  if (error.status === 0) return t(navigator.onLine ? 'failure.unreachable' : 'failure.offline');
  if (error.status === 429) return t('failure.limit', { seconds: error.retryAfterSeconds ?? 60 });
  if (error.status >= 500) return t('failure.server');
  return error.message;
}

export function Empty(props: { readonly title: string; readonly text: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{props.title}</h2>
      <p>{props.text}</p>
      {props.children}
    </div>
  );
}

let show: (text: string) => void = () => undefined;

/** A confirmation that disappears by itself. */
export const toast = (text: string) => show(text);

export function Toasts() {
  const [text, setText] = useState('');
  useEffect(() => {
    show = setText;
  }, []);
  useEffect(() => {
    if (text === '') return;
    const timer = setTimeout(() => setText(''), 3_000);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div role="status" aria-live="polite">
      {text === '' ? null : <div className="toast">{text}</div>}
    </div>
  );
}

interface CopyButtonProps {
  readonly text: string;
  readonly label: string;
  /** For small spaces: the label is the accessible name. */
  readonly isIcon?: boolean;
}

export function CopyButton({ text, label, isIcon = false }: CopyButtonProps) {
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => toast(t('copied')),
      () => toast(t('copy.failed')),
    );
  };
  return isIcon ? (
    <button type="button" className="icon" aria-label={label} title={t('copy')} onClick={copy}>
      <Icon name="copy" />
    </button>
  ) : (
    <button type="button" onClick={copy}>
      {label}
    </button>
  );
}
