import { type ReactNode, useId, useRef } from 'react';

interface TabsProps<Name extends string> {
  readonly tabs: readonly (readonly [name: Name, text: string])[];
  readonly chosen: Name;
  readonly onChoose: (name: Name) => void;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}

/** A card with tabs; the arrow keys move between them. */
export function TabCard<Name extends string>({ tabs, chosen, onChoose, aside, children }: TabsProps<Name>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number) => {
    const at = tabs.findIndex(([name]) => name === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next[0]);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next[0]}"]`)?.focus();
  };
  return (
    <section className="card">
      <header>
        <div
          className="tabs"
          role="tablist"
          ref={list}
          onKeyDown={(event) => {
            if (event.key !== 'ArrowRight' && event.key !== 'ArrowLeft') return;
            event.preventDefault();
            event.stopPropagation();
            move(event.key === 'ArrowRight' ? 1 : -1);
          }}
        >
          {tabs.map(([name, text]) => (
            <button
              key={name}
              type="button"
              role="tab"
              data-tab={name}
              id={`${id}-${name}`}
              aria-selected={name === chosen}
              aria-controls={`${id}-panel`}
              tabIndex={name === chosen ? 0 : -1}
              onClick={() => onChoose(name)}
            >
              {text}
            </button>
          ))}
        </div>
        <span className="push muted small">{aside}</span>
      </header>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`}>
        {children}
      </div>
    </section>
  );
}
