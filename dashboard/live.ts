/** Live records: the API's server-sent events, authenticated by the session cookie. */
import { useEffect, useRef, useState } from 'react';
import { type Query, urlOf } from './api.ts';

export const liveKinds = ['click', 'match', 'install', 'open', 'event'] as const;
export type LiveKind = (typeof liveKinds)[number];

export interface LiveRecord {
  readonly key: string;
  readonly kind: LiveKind;
  readonly time: string;
  /** The record's fields, as the API describes them. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type LiveState = 'connecting' | 'open' | 'closed';

/** The browser reconnects automatically after a stream ends, but not after an error response. */
const retryMs = 10_000;

/** @param query null: nothing is watched. */
export function useLive(
  query: Query<'GET /live'> | null,
  onRecord: (record: LiveRecord) => void,
  onSampled: (rate: number) => void = () => undefined,
): LiveState {
  const [state, setState] = useState<LiveState>('connecting');
  const listeners = useRef({ onRecord, onSampled });
  useEffect(() => {
    listeners.current = { onRecord, onSampled };
  });
  const url = query === null ? '' : urlOf('/live', {}, query);
  useEffect(() => {
    if (url === '') return;
    let source: EventSource | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let count = 0;
    const open = () => {
      const opened = new EventSource(url);
      source = opened;
      opened.addEventListener('hello', () => setState('open'));
      opened.addEventListener('error', () => {
        if (opened.readyState === EventSource.CONNECTING) return setState('connecting');
        setState('closed');
        timer = setTimeout(open, retryMs);
      });
      for (const kind of liveKinds) {
        opened.addEventListener(kind, (event: Event) => {
          // The browser's connection event is also called `open`.
          if (!(event instanceof MessageEvent) || typeof event.data !== 'string') return;
          const fields = JSON.parse(event.data) as Record<string, unknown>;
          const key = `${event.lastEventId} ${count++}`;
          listeners.current.onRecord({ key, kind, time: String(fields['time']), fields });
        });
      }
      opened.addEventListener('sampled', (event: MessageEvent<string>) => {
        const { rate } = JSON.parse(event.data) as { rate?: number };
        listeners.current.onSampled(rate ?? 1);
      });
    };
    setState('connecting');
    open();
    return () => {
      clearTimeout(timer);
      source?.close();
    };
  }, [url]);
  return state;
}
