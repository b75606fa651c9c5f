import type { ReactNode } from 'react';

interface ScrollAreaProps {
  /** Describes the content, for screen readers. */
  readonly label: string;
  /** Whether it is limited in height too. */
  readonly height?: 'tall' | 'tail';
  readonly children: ReactNode;
}

/** A container in which a table that is too wide for the screen scrolls. */
export function ScrollArea({ label, height, children }: ScrollAreaProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
    <section className={height ? `scroll ${height}` : 'scroll'} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
