/** Form fields with a label, a hint, and the API's message about the value. */
import { type ReactNode, useEffect, useId, useRef, useState } from 'react';

/** After a rejected attempt, focuses the first field with a message, which may be out of view. */
export function useFaultFocus(error: unknown) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus();
  }, [error]);
  return form;
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint?: string;
  readonly fault?: string | undefined;
  /** Feedback on the value while it is being typed. */
  readonly status?: { readonly text: string; readonly tone: 'good' | 'bad' | '' } | undefined;
  readonly type?: string;
  readonly placeholder?: string;
  readonly before?: string;
  readonly isRequired?: boolean;
  readonly isReadOnly?: boolean;
  readonly autoComplete?: string;
  readonly hasFocus?: boolean;
  readonly inputMode?: 'numeric' | 'decimal' | 'url' | 'email';
}

export function Field(props: FieldProps) {
  const id = useId();
  const { label, value, onChange, hint, before, status } = props;
  const fault = useFault(props.fault, value);
  const about = [fault ? `${id}-fault` : '', status ? `${id}-status` : '', hint ? `${id}-hint` : '']
    .filter((one) => one !== '')
    .join(' ');
  const input = (
    <input
      id={id}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      type={props.type ?? 'text'}
      placeholder={props.placeholder}
      required={props.isRequired}
      readOnly={props.isReadOnly}
      autoComplete={props.autoComplete ?? 'off'}
      // biome-ignore lint/a11y/noAutofocus: the first field of a dialog or of the login
      autoFocus={props.hasFocus}
      data-focus={props.hasFocus ? '' : undefined}
      inputMode={props.inputMode}
      spellCheck={false}
      aria-invalid={fault ? true : undefined}
      aria-describedby={about || undefined}
    />
  );
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      {before ? (
        <div className="affix">
          <span className="cut" aria-hidden="true">
            {before}
          </span>
          {input}
        </div>
      ) : (
        input
      )}
      {fault ? (
        <p className="fault" id={`${id}-fault`}>
          {fault}
        </p>
      ) : null}
      {status ? (
        <p className={`hint ${status.tone}`} id={`${id}-status`} role="status">
          {fault && status.tone !== '' ? '' : status.text}
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

/** The message concerns the sent value, so it disappears when that value is changed. */
function useFault(fault: string | undefined, value: string): string | undefined {
  const [refused, setRefused] = useState({ fault, value });
  if (refused.fault !== fault) setRefused({ fault, value });
  return value === refused.value ? fault : undefined;
}

interface ChoiceProps<Value extends string> {
  readonly label: string;
  readonly value: Value;
  readonly options: readonly (readonly [value: Value, text: string])[];
  readonly onChange: (value: Value) => void;
  readonly isLabelHidden?: boolean;
}

export function Choice<Value extends string>({ label, value, options, onChange, isLabelHidden }: ChoiceProps<Value>) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id} className={isLabelHidden ? 'sr' : ''}>
        {label}
      </label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value as Value)}>
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

interface MoreProps {
  readonly title: string;
  /** Opens the section, so that a message in it is visible. */
  readonly hasFault?: boolean;
  readonly children: ReactNode;
}

export function More({ title, hasFault = false, children }: MoreProps) {
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (hasFault && details.current) details.current.open = true;
  }, [hasFault]);
  return (
    <details className="more" ref={details}>
      <summary>{title}</summary>
      <div>{children}</div>
    </details>
  );
}
