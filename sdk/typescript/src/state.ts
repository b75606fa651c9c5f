/** What is kept on the device besides the queue. */
import type { Consent, Dropped, Link, Store } from './types.ts';

export interface State {
  consent?: Consent;
  /** The first match was answered. */
  opened?: boolean;
  installed?: boolean;
  device_id?: string;
  install_id?: string;
  match_id?: string;
  user_id?: string;
  first_link?: Link;
  last_link?: Link;
  /** A deferred link that no listener took yet, and since when. */
  untaken?: { link: Link; at: number };
  /** Pages only: the click that led here, which their events name. */
  click?: { link_id: string; click_id: string };
  dropped?: Dropped;
}

export async function loadState(store: Store): Promise<State> {
  try {
    const state: unknown = JSON.parse((await store.get('state')) ?? '{}');
    return typeof state === 'object' && state !== null ? state : {};
  } catch {
    return {};
  }
}

/** Without full consent only the choice is kept, and that the first opening is over. */
export async function saveState(store: Store, state: State): Promise<void> {
  const { consent, opened } = state;
  const kept = consent === 'all' ? state : { consent, opened };
  await store.set('state', JSON.stringify(kept));
}
