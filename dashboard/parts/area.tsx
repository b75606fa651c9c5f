/** A field for text of several lines, with a label, a hint, and the API's message about the value. */
import { useId } from 'react';

interface AreaProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint?: string;
  readonly fault?: string | undefined;
  readonly placeholder?: string;
  /** In letters of the same width. */
  readonly isCode?: boolean;
  readonly rows?: number;
}

export function Area({ label, value, onChange, hint, fault, placeholder, isCode = false, rows = 4 }: AreaProps) {
  const id = useId();
  const about = [fault ? `${id}-fault` : '', hint ? `${id}-hint` : ''].filter((one) => one !== '').join(' ');
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        className={isCode ? 'mono' : undefined}
        rows={rows}
        value={value}
        placeholder={placeholder}
        spellCheck={isCode ? false : undefined}
        aria-invalid={fault ? true : undefined}
        aria-describedby={about || undefined}
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
