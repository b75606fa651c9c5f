/**
 * Whether the short code that is being typed is free. Only creating the link is decisive; this gives earlier feedback.
 */
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from './api.ts';
import { t } from './texts/text.ts';

const pauseMs = 300;
/** Codes that the API accepts. */
const pattern = /^[A-Za-z0-9_-]{3,64}$/;

export interface Availability {
  readonly text: string;
  readonly tone: 'good' | 'bad' | '';
}

/** @param own the link's current code. */
export function useAvailability(appId: string, code: string, own: string): Availability {
  const text = code.trim();
  const settled = useSettled(text);
  const isAsked = settled === text && text !== own && pattern.test(text) && appId !== '';
  const found = useQuery({
    queryKey: ['availability', appId, text],
    queryFn: () => call('GET /links/availability', { query: { app_id: appId, short_code: text } }),
    enabled: isAsked,
    staleTime: 5_000,
    retry: false,
  });
  if (text === '' || text === own) return { text: '', tone: '' };
  if (!pattern.test(text)) return { text: t('code.pattern'), tone: '' };
  if (!isAsked || found.isPending) return { text: t('code.checking'), tone: '' };
  // Ignored while the API is unreachable: creating the link reports it.
  if (!found.data) return { text: '', tone: '' };
  const { is_available, reason } = found.data;
  return is_available ? { text: t('code.free'), tone: 'good' } : { text: t(`code.${reason ?? 'taken'}`), tone: 'bad' };
}

/** The value, debounced. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
