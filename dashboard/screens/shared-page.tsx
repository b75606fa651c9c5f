/** A shared page as visitors see it: the statistics, a password form, or an error. */
import { useCallback, useEffect, useRef, useState } from 'react';
import { type Interval, intervals, ownZone } from '#dashboard/address.ts';
import { type Answer, ApiFailure, type Body, call } from '#dashboard/api.ts';
import { ago, bare, date } from '#dashboard/format.ts';
import { Failure, failureText, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Brand, Icon } from '#dashboard/parts/icons.tsx';
import { named, t } from '#dashboard/texts/text.ts';
import { switchTheme } from '#dashboard/theme.ts';
import { SharedBreakdowns, SharedTotals } from './shared-figures.tsx';

export type SharedFigures = Answer<'POST /shared-figures'>;

export function SharedPage({ token }: { readonly token: string }) {
  const [interval, setInterval] = useState<Interval>('30d');
  const { figures, error, isBusy, load } = useFigures(token, interval);
  useEffect(() => {
    document.title = figures ? `${figures.name} · Signpost` : 'Signpost';
  }, [figures]);
  const reason = error instanceof ApiFailure ? error.reason : '';
  if (reason.startsWith('password_') || (error && !figures && isLocked(error)))
    return <PasswordDoor error={error} isBusy={isBusy} onEnter={(password) => load({ password })} />;
  if (error instanceof ApiFailure && error.status === 404) return <Gone />;
  return (
    <div className="public">
      <header className="row">
        <Brand />
        <button
          type="button"
          className="plain icon push"
          aria-label={t('theme')}
          title={t('theme')}
          onClick={switchTheme}
        >
          <Icon name="sun" />
        </button>
      </header>
      <main className="stack">
        {error ? <Failure error={error} retry={() => load({})} /> : null}
        {figures ? (
          <>
            <Head figures={figures} interval={interval} onChange={setInterval} />
            <SharedTotals figures={figures} />
            <SharedBreakdowns figures={figures} />
          </>
        ) : error ? null : (
          <section className="card">
            <Loading lines={8} />
          </section>
        )}
      </main>
    </div>
  );
}

/** Too many attempts: the form stays. */
const isLocked = (error: unknown) => error instanceof ApiFailure && error.status === 429 && error.reason === '';

type Entrance = Pick<Body<'POST /shared-figures'>, 'password' | 'ticket'>;

/** Reloads the statistics when the period changes; the response to the latest request is used. */
function useFigures(token: string, interval: Interval) {
  const [figures, setFigures] = useState<SharedFigures | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const ticket = useRef<string | null>(null);
  const turn = useRef(0);
  const load = useCallback(
    (entrance: Entrance) => {
      const mine = ++turn.current;
      setBusy(true);
      const access = ticket.current === null ? entrance : { ticket: ticket.current };
      call('POST /shared-figures', { body: { token, interval, timezone: ownZone, ...access }, isAnonymous: true })
        .then(
          (answer) => {
            ticket.current = answer.ticket;
            if (mine !== turn.current) return;
            setFigures(answer);
            setError(null);
          },
          (failure: unknown) => {
            if (mine === turn.current) setError(failure);
          },
        )
        .finally(() => mine === turn.current && setBusy(false));
    },
    [token, interval],
  );
  useEffect(() => load({}), [load]);
  return { figures, error, isBusy, load };
}

interface HeadProps {
  readonly figures: SharedFigures;
  readonly interval: Interval;
  readonly onChange: (interval: Interval) => void;
}

function Head({ figures, interval, onChange }: HeadProps) {
  const { name, url, campaign, expires_at: expires, as_of } = figures;
  return (
    <div className="head">
      <div className="two">
        <h1>{name}</h1>
        {url ? (
          <a className="small" href={url} target="_blank" rel="noreferrer">
            {bare(url)}
          </a>
        ) : (
          <span className="small muted">
            {t('filter.campaign')}: {campaign}
          </span>
        )}
      </div>
      <div className="row push">
        <span className="small muted">
          {as_of > '1971' ? t('as_of', { time: ago(as_of) }) : ''}
          {expires ? ` · ${t('shared.open_until', { date: date(expires, ownZone) })}` : ''}
        </span>
        <Choice
          label={t('period.label')}
          isLabelHidden
          value={interval}
          options={intervals.map((one) => [one, named('period', one)] as const)}
          onChange={onChange}
        />
      </div>
    </div>
  );
}

interface PasswordDoorProps {
  readonly error: unknown;
  readonly isBusy: boolean;
  readonly onEnter: (password: string) => void;
}

function PasswordDoor({ error, isBusy, onEnter }: PasswordDoorProps) {
  const [password, setPassword] = useState('');
  const reason = error instanceof ApiFailure ? error.reason : '';
  return (
    <main className="door">
      <Brand />
      <form
        className="card"
        onSubmit={(event) => {
          event.preventDefault();
          onEnter(password);
        }}
      >
        <h1>{t('shared.locked')}</h1>
        {reason === 'password_required' ? null : (
          <div className="notice bad small" role="alert">
            {reason === 'password_wrong' ? t('shared.wrong') : failureText(error)}
          </div>
        )}
        <Field
          label={t('login.password')}
          type="password"
          value={password}
          onChange={setPassword}
          isRequired
          hasFocus
        />
        <button type="submit" className="primary large" disabled={isBusy}>
          {t('shared.enter')}
        </button>
      </form>
    </main>
  );
}

function Gone() {
  return (
    <main className="door">
      <Brand />
      <div className="card">
        <div className="inside stack tight">
          <h1>{t('shared.gone')}</h1>
          <p className="muted">{t('shared.gone_text')}</p>
        </div>
      </div>
    </main>
  );
}
