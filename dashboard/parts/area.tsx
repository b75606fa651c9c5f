/** A field for text of several lines, with a label, a hint, and the API's message about the value. */
import { type Ref, useId } from 'react';

interface AreaProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint?: string;
  readonly fault?: string | undefined;
  readonly placeholder?: string;
  /** In a monospaced font. */
  readonly isCode?: boolean;
  readonly rows?: number;
  readonly hasFocus?: boolean;
  readonly onFocus?: () => void;
  readonly area?: Ref<HTMLTextAreaElement>;
}

export function Area(props: AreaProps) {
  const { label, value, onChange, hint, fault, placeholder, isCode = false, rows = 4 } = props;
  const id = useId();
  const about = [fault ? `${id}-fault` : '', hint ? `${id}-hint` : ''].filter((one) => one !== '').join(' ');
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        ref={props.area}
        className={isCode ? 'mono' : undefined}
        rows={rows}
        value={value}
        placeholder={placeholder}
        spellCheck={isCode ? false : undefined}
        aria-invalid={fault ? true : undefined}
        aria-describedby={about || undefined}
        data-focus={props.hasFocus ? '' : undefined}
        onFocus={props.onFocus}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      {fault ? (
        <p className="fault" id={`${id}-fault`}>
          {fault}
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
