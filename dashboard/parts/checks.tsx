/** A group of boxes of which any number are checked. */
interface ChecksProps<Value extends string> {
  readonly legend: string;
  readonly hint?: string;
  readonly options: readonly (readonly [value: Value, text: string])[];
  readonly chosen: readonly Value[];
  readonly onChange: (chosen: readonly Value[]) => void;
  /** Shows the values too. */
  readonly hasCodes?: boolean;
  /** Side by side, for short texts. */
  readonly isRow?: boolean;
  readonly fault?: string | undefined;
}

export function Checks<Value extends string>(props: ChecksProps<Value>) {
  const { legend, hint, options, chosen, onChange, hasCodes, isRow, fault } = props;
  return (
    <fieldset className={`plain checks${isRow ? ' short' : ''}`}>
      <legend className="label">{legend}</legend>
      {options.map(([value, text]) => (
        <label key={value} className="check">
          <input
            type="checkbox"
            checked={chosen.includes(value)}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? [...chosen, value] : chosen.filter((one) => one !== value))
            }
          />
          <span>{text}</span>
          {hasCodes ? <code className="muted">{value}</code> : null}
        </label>
      ))}
      {fault ? <p className="fault">{fault}</p> : null}
      {hint ? <p className="hint">{hint}</p> : null}
    </fieldset>
  );
}
