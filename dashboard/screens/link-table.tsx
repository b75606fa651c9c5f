/** The rows of the list of links, which can be selected for bulk changes. */
import { useQuery } from '@tanstack/react-query';
import { Link as PageLink } from 'wouter';
import { filterValue, useAddress } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { ago, bare, short } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { CopyButton } from '#dashboard/parts/feedback.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { t } from '#dashboard/texts/text.ts';

interface LinkTableProps {
  readonly rows: readonly Link[];
  /** Undefined: the user has read-only access. */
  readonly choice?: Choice | undefined;
  /** While another page is loading, the rows shown are outdated and cannot be selected. */
  readonly isStale: boolean;
}

export interface Choice {
  readonly has: (id: string) => boolean;
  readonly choose: (ids: readonly string[], isChosen: boolean) => void;
}

/** Clicks of the shown links, in one request, because the list itself does not include them. */
function useClicks(rows: readonly Link[]): ReadonlyMap<string, number> | null {
  const ids = rows.map(({ id }) => id).join(',');
  const found = useQuery({
    queryKey: ['clicks-of', ids],
    queryFn: () => call('GET /analytics/top-links', { query: { link_id: ids, interval: 'all', limit: 100 } }),
    enabled: ids !== '',
  });
  if (!found.data) return null;
  return new Map(found.data.data.map((row) => [row.link_id ?? '', row.clicks]));
}

export function LinkTable({ rows, choice, isStale }: LinkTableProps) {
  const clicks = useClicks(rows);
  const ids = rows.map(({ id }) => id);
  const chosen = choice ? ids.filter((id) => choice.has(id)).length : 0;
  return (
    <ScrollArea label={t('links.table')}>
      <table className={choice ? 'choosable' : ''}>
        <thead>
          <tr>
            {choice ? (
              <th className="choose">
                <input
                  type="checkbox"
                  aria-label={t('bulk.choose_page')}
                  disabled={isStale}
                  checked={chosen === ids.length}
                  ref={(box) => {
                    if (box) box.indeterminate = chosen > 0 && chosen < ids.length;
                  }}
                  onChange={(event) => choice.choose(ids, event.currentTarget.checked)}
                />
              </th>
            ) : null}
            <th>{t('links.link')}</th>
            <th className="hide-narrow">{t('links.campaign')}</th>
            <th className="hide-middle">{t('links.tags')}</th>
            <th className="num">{t('metric.clicks')}</th>
            <th className="hide-middle">{t('links.created')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((link) => (
            <LinkRow
              key={link.id}
              link={link}
              choice={choice}
              clicks={clicks ? short(clicks.get(link.id) ?? 0) : null}
            />
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}

interface LinkRowProps {
  readonly link: Link;
  readonly choice?: Choice | undefined;
  readonly clicks: string | null;
}

function LinkRow({ link, choice, clicks }: LinkRowProps) {
  const { set } = useAddress();
  const name = link.title || bare(link.url);
  return (
    <tr aria-selected={choice?.has(link.id)}>
      {choice ? (
        <td className="choose">
          <input
            type="checkbox"
            aria-label={t('bulk.choose', { name })}
            checked={choice.has(link.id)}
            onChange={(event) => choice.choose([link.id], event.currentTarget.checked)}
          />
        </td>
      ) : null}
      <td className="wide">
        <div className="two">
          <span className="row">
            <PageLink className="cut strong" href={`/links/${link.id}`}>
              {name}
            </PageLink>
            <LinkState link={link} />
          </span>
          <span className="muted small cut">
            {link.title ? `${bare(link.url)} → ` : ''}
            {bare(link.fallback_url ?? link.ios_url ?? link.android_url ?? link.path)}
          </span>
        </div>
      </td>
      <td className="hide-narrow">
        {link.campaign ? (
          <button
            type="button"
            className="plain tag cut"
            onClick={() => set({ campaign: filterValue(link.campaign ?? ''), offset: null })}
          >
            {link.campaign}
          </button>
        ) : null}
      </td>
      <td className="hide-middle">
        <span className="row wrap">
          {link.tags.slice(0, 3).map((tag) => (
            <button
              key={tag}
              type="button"
              className="plain tag cut"
              onClick={() => set({ tag: filterValue(tag), offset: null })}
            >
              {tag}
            </button>
          ))}
          {link.tags.length > 3 ? <span className="small muted">+{link.tags.length - 3}</span> : null}
        </span>
      </td>
      <td className="num">{clicks ?? <span className="loading">000</span>}</td>
      <td className="hide-middle muted nowrap" title={link.created_at}>
        {ago(link.created_at)}
      </td>
      <td className="num">
        <CopyButton text={link.url} label={t('copy.of', { name })} isIcon />
      </td>
    </tr>
  );
}

export function LinkState({ link }: { readonly link: Link }) {
  if (link.archived) return <span className="tag">{t('link.archived')}</span>;
  if (link.expires_at && Date.parse(link.expires_at) <= Date.now())
    return <span className="tag bad">{t('link.expired')}</span>;
  if (link.click_limit && link.click_limit.left + link.click_limit.held === 0)
    return <span className="tag bad">{t('link.limit_reached')}</span>;
  if (link.expires_at) return <span className="tag warn">{t('link.expires_in', { time: ago(link.expires_at) })}</span>;
  return null;
}
