/** The draft of a form that stays open while what it edits is saved, here or by someone else. */
import { useState } from 'react';
import { renewed } from './form-changes.ts';

export interface DraftState<Draft> {
  /** What is stored, as far as it is known. */
  readonly before: Draft;
  readonly draft: Draft;
  readonly change: (part: Partial<Draft>) => void;
  /** After `sent` was saved as `stored`: what was typed since then stays. */
  readonly saved: (sent: Draft, stored: Draft) => void;
}

/** @param loaded the stored values that were loaded last; newer ones replace what the user has not changed. */
export function useDraft<Draft extends object>(loaded: Draft): DraftState<Draft> {
  const [state, setState] = useState({ loaded, before: loaded, draft: loaded });
  if (JSON.stringify(state.loaded) !== JSON.stringify(loaded))
    setState({ loaded, before: loaded, draft: renewed(state.draft, state.before, loaded) });
  return {
    before: state.before,
    draft: state.draft,
    change: (part) => setState((now) => ({ ...now, draft: { ...now.draft, ...part } })),
    saved: (sent, stored) => setState((now) => ({ ...now, before: stored, draft: renewed(now.draft, sent, stored) })),
  };
}
