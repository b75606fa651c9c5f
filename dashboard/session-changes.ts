/** Tells the other tabs of this browser about a login or logout. */
const channel = new BroadcastChannel('signpost-session');

export const announceSession = () => channel.postMessage('changed');

export function onSessionChange(listener: () => void): () => void {
  channel.addEventListener('message', listener);
  return () => channel.removeEventListener('message', listener);
}
