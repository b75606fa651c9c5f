/** A ranked list: the bar of each row is relative to the largest, and a click filters. */
import type { ReactNode } from 'react';

export interface Rank {
  readonly key: string;
  readonly label: ReactNode;
  readonly value: number;
  readonly shown: string;
  /** Absent: the row does not filter. */
  readonly onPick?: (() => void) | undefined;
}

export function Ranks({ rows }: { readonly rows: readonly Rank[] }) {
  const largest = Math.max(1e-9, ...rows.map(({ value }) => value));
  return (
    <ol className="ranks">
      {rows.map(({ key, label, value, shown, onPick }) => {
        const inner = (
          <>
            <span className="bar" style={{ width: `${Math.max(0, (value / largest) * 100)}%` }} />
            <span className="cut">{label}</span>
            <span className="num">{shown}</span>
          </>
        );
        return (
          <li key={key}>
            {onPick ? (
              <button type="button" onClick={onPick}>
                {inner}
              </button>
            ) : (
              <div className="plainrow">{inner}</div>
            )}
          </li>
        );
      })}
    </ol>
  );
}
