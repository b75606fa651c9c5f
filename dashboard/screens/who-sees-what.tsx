/**
 * Where a link leads five kinds of devices, and which rule decides, using the redirector's own code. Nothing is
 * counted.
 */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useView } from '#dashboard/address.ts';
import { type Answer, type Body, call } from '#dashboard/api.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import type { LinkRule } from '#dashboard/rule-draft.ts';
import {
  conditionWords,
  countryOptions,
  destinationWords,
  languageOptions,
  variantName,
} from '#dashboard/rule-words.ts';
import { named, t } from '#dashboard/texts/text.ts';

type Explanation = Answer<'POST /links/{id}/explain'>;
type Visitor = Omit<Body<'POST /links/{id}/explain'>, 'user_agent'>;

const safari = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1';
const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0';
const devices = [
  ['iphone', `Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) ${safari}`],
  ['android', `Mozilla/5.0 (Linux; Android 15; Pixel 9) ${chrome} Mobile Safari/537.36`],
  ['ipad', `Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) ${safari}`],
  ['desktop', `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Safari/537.36`],
  ['preview', 'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)'],
] as const;
type Device = (typeof devices)[number][0];

/** The visitor that is being configured; empty values are omitted. */
const anyone = { installed: false, country: '', language: '', at: '', person: 0 };
type Chosen = typeof anyone;

export function WhoSeesWhat({ link }: { readonly link: Link }) {
  const [chosen, setChosen] = useState<Chosen>(anyone);
  const found = useQuery({
    queryKey: ['explain', link.id, link.updated_at, chosen],
    queryFn: () => explained(link.id, visitorOf(chosen)),
    placeholderData: keepPreviousData,
  });
  const rules = link.rules ?? [];
  const change = (part: Partial<Chosen>) => setChosen({ ...chosen, ...part });
  return (
    <section className="card" aria-label={t('explain.title')}>
      <header>
        <h2>{t('explain.title')}</h2>
        <label className="check push">
          <input
            type="checkbox"
            checked={chosen.installed}
            onChange={(event) => change({ installed: event.currentTarget.checked })}
          />
          <span>{t('explain.installed')}</span>
        </label>
      </header>
      {rules.length > 0 ? (
        <div className="inside seen">
          <Rules rules={rules} />
          <VisitorChoice rules={rules} chosen={chosen} onChange={change} />
        </div>
      ) : null}
      {found.isError && !found.data ? (
        <div className="inside">
          <Failure error={found.error} retry={() => void found.refetch()} />
        </div>
      ) : null}
      {found.isPending ? <Loading lines={5} /> : null}
      {found.data ? (
        <ScrollArea label={t('explain.table')}>
          <table aria-busy={found.isPlaceholderData}>
            <tbody>
              {found.data.map(([device, one]) => (
                <tr key={device}>
                  <th>{t(`explain.${device}`)}</th>
                  <td className="most">
                    <Way way={one} opensApp={chosen.installed && one.association.opens_app} />
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

/** Also for users who cannot open the editor. */
function Rules({ rules }: { readonly rules: readonly LinkRule[] }) {
  const { timezone } = useView();
  return (
    <ol className="stack tight" aria-label={t('rules.title')}>
      {rules.map((rule, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a rule is identified only by its position
        <li key={at} className="row">
          <span className="tag">{at + 1}</span>
          <span className="two">
            <span>{conditionWords(rule, timezone).join(' · ')}</span>
            <span className="muted small breaks">→ {destinationWords(rule)}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}

interface VisitorChoiceProps {
  readonly rules: readonly LinkRule[];
  readonly chosen: Chosen;
  readonly onChange: (part: Partial<Chosen>) => void;
}

/** The inputs of the rules besides the device. */
function VisitorChoice({ rules, chosen, onChange }: VisitorChoiceProps) {
  const asks = (...names: readonly (keyof LinkRule)[]) =>
    rules.some((rule) => names.some((name) => rule[name] !== undefined));
  const unknown = ['', t('explain.unset')] as const;
  const hasTime = asks('after', 'before', 'weekdays', 'time_from');
  if (!hasTime && !asks('country', 'language', 'variants')) return null;
  return (
    <fieldset className="plain visitor">
      <legend className="sr">{t('explain.visitor')}</legend>
      {asks('country') ? (
        <Choice
          label={t('rules.country')}
          value={chosen.country}
          options={[unknown, ...countryOptions()]}
          onChange={(country) => onChange({ country })}
        />
      ) : null}
      {asks('language') ? (
        <Choice
          label={t('rules.language')}
          value={chosen.language}
          options={[unknown, ...languageOptions()]}
          onChange={(language) => onChange({ language })}
        />
      ) : null}
      {hasTime ? (
        <Field label={t('explain.at')} type="datetime-local" value={chosen.at} onChange={(at) => onChange({ at })} />
      ) : null}
      {asks('variants') ? (
        <button type="button" onClick={() => onChange({ person: chosen.person + 1 })}>
          {t('explain.another')}
        </button>
      ) : null}
    </fieldset>
  );
}

/**
 * Variants depend on the address: each additional visitor has a different one, from the range reserved for
 * documentation.
 */
function visitorOf({ installed, country, language, at, person }: Chosen): Visitor {
  return {
    installed,
    ip: `198.51.100.${(person * 37 + 1) % 256}`,
    ...(country === '' ? {} : { country }),
    ...(language === '' ? {} : { language }),
    ...(at === '' ? {} : { at: new Date(at).toISOString() }),
  };
}

function explained(id: string, visitor: Visitor): Promise<(readonly [Device, Explanation])[]> {
  return Promise.all(
    devices.map(async ([device, user_agent]) => {
      const body = { user_agent, ...visitor };
      return [device, await call('POST /links/{id}/explain', { params: { id }, body })] as const;
    }),
  );
}

/** The API explains why in English sentences, like its other messages. */
function Way({ way, opensApp }: { readonly way: Explanation; readonly opensApp: boolean }) {
  const { status, location, sentences, outcome } = way;
  return (
    <details>
      <summary className="row">
        <span className={`tag ${opensApp || status < 400 ? 'good' : 'warn'}`}>
          {opensApp ? t('explain.app') : status}
        </span>
        {opensApp ? null : <RuleTag way={way} />}
        <span className="cut">
          {opensApp ? t('explain.opens_app') : (location ?? named('explain.outcome', outcome))}
        </span>
      </summary>
      <ul className="sentences muted small">
        {sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </details>
  );
}

function RuleTag({ way: { rule_index: at, variant } }: { readonly way: Explanation }) {
  if (at === null) return null;
  const n = at + 1;
  return (
    <span className="tag">
      {variant === null ? t('rules.number', { n }) : t('rules.number_variant', { n, name: variantName(variant) })}
    </span>
  );
}
