/** An input that finds values by part of their name and shows selected values as removable chips. */
import { useId, useState } from 'react';
import { t } from '#dashboard/texts/text.ts';
import { Icon } from './icons.tsx';

interface PicksProps {
  readonly label: string;
  readonly chosen: readonly string[];
  readonly options: readonly (readonly [value: string, name: string])[];
  readonly onChange: (chosen: readonly string[]) => void;
  readonly fault?: string | undefined;
  readonly hint?: string;
  readonly placeholder?: string;
  /** Accepts values that are not options. */
  readonly isFree?: boolean;
}

export function Picks({ label, chosen, options, onChange, fault, hint, placeholder, isFree = false }: PicksProps) {
  const id = useId();
  const [text, setText] = useState('');
  const [isUnknown, setUnknown] = useState(false);
  const optionOf = (typed: string) => {
    const wanted = typed.trim().toLowerCase();
    const found = options.find(([value, name]) => value.toLowerCase() === wanted || name.toLowerCase() === wanted);
    return found?.[0] ?? (isFree ? typed.trim() : undefined);
  };
  const add = (typed: string) => {
    // Free-form names, such as campaigns, may contain commas.
    const isOne = options.length === 0 || options.some(([, name]) => name === typed.trim());
    const parts = isOne ? [typed] : typed.split(',');
    const values = parts.filter((part) => part.trim() !== '').map(optionOf);
    const known = values.filter((value) => value !== undefined);
    setUnknown(known.length < values.length);
    if (known.length < values.length) return;
    setText('');
    if (known.length > 0) onChange([...new Set([...chosen, ...known])]);
  };
  const shownFault = isUnknown ? t('picks.unknown') : fault;
  const about = [shownFault ? `${id}-fault` : '', hint ? `${id}-hint` : ''].filter((one) => one !== '').join(' ');
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      {chosen.length > 0 ? (
        <ul className="row wrap picked">
          {chosen.map((value) => {
            const name = options.find(([one]) => one === value)?.[1] ?? value;
            return (
              <li key={value} className="chip">
                <span className="cut">{name}</span>
                <button
                  type="button"
                  aria-label={t('picks.remove', { name })}
                  onClick={() => onChange(chosen.filter((one) => one !== value))}
                >
                  <Icon name="close" />
                </button>
              </li>
            );
          })}
        </ul>
      ) : null}
      <input
        id={id}
        list={`${id}-options`}
        value={text}
        placeholder={placeholder}
        autoComplete="off"
        spellCheck={false}
        aria-invalid={shownFault ? true : undefined}
        aria-describedby={about || undefined}
        onChange={(event) => {
          // An option that was selected from the list, not typed, is complete.
          const { inputType } = event.nativeEvent as InputEvent;
          setText(event.currentTarget.value);
          setUnknown(false);
          if (inputType === undefined || inputType === 'insertReplacementText') add(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          event.preventDefault();
          add(text);
        }}
        onBlur={() => add(text)}
      />
      <datalist id={`${id}-options`}>
        {options
          .filter(([value]) => !chosen.includes(value))
          .map(([value, name]) => (
            <option key={value} value={name} />
          ))}
      </datalist>
      {shownFault ? (
        <p className="fault" id={`${id}-fault`}>
          {shownFault}
        </p>
      ) : null}
      {hint ? (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      ) : null}
    </div>
  );
}
