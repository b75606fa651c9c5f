/** The redirect rules of a link, in order, because the first matching rule decides. */
import { useRef, useState } from 'react';
import { useView } from '#dashboard/address.ts';
import { Icon } from '#dashboard/parts/icons.tsx';
import { type RuleDraft, ruleDraftOf, ruleOf } from '#dashboard/rule-draft.ts';
import { conditionWords, destinationWords } from '#dashboard/rule-words.ts';
import { t } from '#dashboard/texts/text.ts';
import { RuleFields } from './rule-fields.tsx';

/** Same limit as in the API. */
const rulesMax = 20;

interface RulesEditorProps {
  readonly rules: readonly RuleDraft[];
  readonly onChange: (rules: readonly RuleDraft[]) => void;
  /** The API's messages, by field: `rules[1].country[0]`. */
  readonly faults: ReadonlyMap<string, string>;
}

export function RulesEditor({ rules, onChange, faults }: RulesEditorProps) {
  const [opened, setOpened] = useState<number | null>(null);
  const list = useRef<HTMLOListElement>(null);
  const move = (from: number, to: number) => {
    const next = [...rules];
    next.splice(to, 0, ...next.splice(from, 1));
    onChange(next);
  };
  const remove = (key: number) => {
    onChange(rules.filter((rule) => rule.key !== key));
    // The focused element was removed.
    list.current?.parentElement?.querySelector<HTMLElement>('[data-add]')?.focus();
  };
  return (
    <div className="stack">
      <p className="hint">{t('rules.text')}</p>
      {faults.get('rules') ? <p className="fault">{faults.get('rules')}</p> : null}
      <ol className="rules" ref={list}>
        {rules.map((rule, at) => (
          <Rule
            key={rule.key}
            rule={rule}
            at={at}
            count={rules.length}
            faults={faultsOf(faults, at)}
            isOpen={opened === rule.key}
            onToggle={() => setOpened(opened === rule.key ? null : rule.key)}
            onChange={(next) => onChange(rules.map((one) => (one.key === next.key ? next : one)))}
            onMove={(to) => move(at, to)}
            onRemove={() => remove(rule.key)}
          />
        ))}
      </ol>
      <div>
        <button
          type="button"
          data-add
          disabled={rules.length >= rulesMax}
          onClick={() => {
            const rule = ruleDraftOf(null);
            setOpened(rule.key);
            onChange([...rules, rule]);
          }}
        >
          <Icon name="plus" />
          {t('rules.add')}
        </button>
      </div>
    </div>
  );
}

/** The messages about one rule, by the field within it. */
function faultsOf(faults: ReadonlyMap<string, string>, at: number): ReadonlyMap<string, string> {
  const start = `rules[${at}]`;
  const own = [...faults].filter(([field]) => field === start || field.startsWith(`${start}.`));
  return new Map(own.map(([field, text]) => [field.slice(start.length + 1), text]));
}

interface RuleProps {
  readonly rule: RuleDraft;
  readonly at: number;
  readonly count: number;
  readonly faults: ReadonlyMap<string, string>;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onChange: (rule: RuleDraft) => void;
  readonly onMove: (to: number) => void;
  readonly onRemove: () => void;
}

function Rule({ rule, at, count, faults, isOpen, onToggle, onChange, onMove, onRemove }: RuleProps) {
  const { timezone } = useView();
  const isShown = isOpen || faults.size > 0;
  const n = at + 1;
  const sent = ruleOf(rule);
  const destination = destinationWords(sent);
  return (
    <li className="rulecard">
      <div className="row">
        <button type="button" className="plain rulename" aria-expanded={isShown} onClick={onToggle}>
          <span className="tag">{n}</span>
          <span className="two">
            <span className="cut">{conditionWords(sent, timezone).join(' · ')}</span>
            <span className="cut muted small">→ {destination === '' ? t('rules.no_destination') : destination}</span>
          </span>
        </button>
        <button
          type="button"
          className="plain icon"
          aria-label={t('rules.up', { n })}
          title={t('rules.up', { n })}
          disabled={at === 0}
          onClick={() => onMove(at - 1)}
        >
          <Icon name="up" />
        </button>
        <button
          type="button"
          className="plain icon"
          aria-label={t('rules.down', { n })}
          title={t('rules.down', { n })}
          disabled={at === count - 1}
          onClick={() => onMove(at + 1)}
        >
          <Icon name="down" />
        </button>
        <button
          type="button"
          className="plain icon"
          aria-label={t('rules.remove', { n })}
          title={t('rules.remove', { n })}
          onClick={onRemove}
        >
          <Icon name="close" />
        </button>
      </div>
      {isShown ? (
        <fieldset className="plain stack">
          <legend className="sr">{t('rules.number', { n })}</legend>
          {faults.get('') ? <p className="fault">{faults.get('')}</p> : null}
          <RuleFields rule={rule} faults={faults} onChange={onChange} />
        </fieldset>
      ) : null}
    </li>
  );
}
