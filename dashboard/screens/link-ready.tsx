/** Shown after a link was created: how to try it, and whether the first tap has arrived. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link as PageLink } from 'wouter';
import { call, urlOf } from '#dashboard/api.ts';
import { bare } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { useLive } from '#dashboard/live.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { CopyButton } from '#dashboard/parts/feedback.tsx';
import { t } from '#dashboard/texts/text.ts';

const lookMs = 1_500;

export function LinkReady({ link, onClose }: { readonly link: Link; readonly onClose: () => void }) {
  return (
    <Dialog title={t('link.ready')} isDrawer onClose={onClose}>
      <div className="fields">
        <TryLink link={link} />
        <PageLink href={`/links/${link.id}`} onClick={onClose}>
          {t('link.open')}
        </PageLink>
      </div>
      <footer>
        <button type="button" className="primary" onClick={onClose}>
          {t('done')}
        </button>
      </footer>
    </Dialog>
  );
}

export function TryLink({ link }: { readonly link: Link }) {
  const isTapped = useFirstClick(link.id);
  return (
    <>
      <div className="secret">
        <code>{bare(link.url)}</code>
        <CopyButton text={link.url} label={t('copy')} />
      </div>
      <img className="qr" src={qrOf(link.id, 'svg')} width="168" height="168" alt={t('link.qr')} />
      <span className="row small">
        {t('link.save_qr')}
        <a href={qrOf(link.id, 'svg')} download={`${link.short_code}.svg`}>
          SVG
        </a>
        <a href={qrOf(link.id, 'png', 1024)} download={`${link.short_code}.png`}>
          PNG
        </a>
      </span>
      <p role="status">
        {isTapped ? (
          <span className="tag good">{t('tap.seen')}</span>
        ) : (
          <span className="pulse">{t('tap.waiting')}</span>
        )}
      </p>
    </>
  );
}

export const qrOf = (id: string, format: 'svg' | 'png', size?: number) =>
  urlOf('/links/{id}/qr', { id }, { format, size });

/** Whether the link was tapped: from the live feed within a second, or from the statistics if there is no live feed. */
export function useFirstClick(id: string | undefined): boolean {
  const [seenId, setSeenId] = useState('');
  const found = useQuery({
    queryKey: ['first-click', id],
    queryFn: () => call('GET /analytics/overview', { query: { link_id: id, interval: 'all' } }),
    enabled: id !== undefined,
    staleTime: 0,
    refetchInterval: ({ state }) => ((state.data?.totals.clicks ?? 0) > 0 ? false : lookMs),
  });
  const isSeen = id !== undefined && (seenId === id || (found.data?.totals.clicks ?? 0) > 0);
  useLive(id === undefined || isSeen ? null : { link_id: id }, ({ kind, fields }) => {
    if (kind === 'click' && fields['is_bot'] !== true) setSeenId(id ?? '');
  });
  return isSeen;
}
