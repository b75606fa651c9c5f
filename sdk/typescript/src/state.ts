/** Reads and writes what is kept on the device besides the queue. */
import type { State } from './kept-state.ts';
import type { Store } from './platform.ts';

export async function loadState(store: Store): Promise<State> {
  const text = (await store.get('state')) ?? '{}';
  try {
    return JSON.parse(text) as State;
  } catch {
    // Unreadable: everything starts over.
    await store.remove(await store.keys());
    return {};
  }
}

/** Without full consent only the choice is kept, and that the first opening is over. */
export async function saveState(store: Store, state: State): Promise<void> {
  const { consent, opened } = state;
  await store.set('state', JSON.stringify(consent === 'all' ? state : { consent, opened }));
}
