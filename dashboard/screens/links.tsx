/** All links: found by text, tag, campaign and app, a page at a time. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { Link as PageLink } from 'wouter';
import { filterValue, useAddress } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { ago, bare, short, whole } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { CopyButton, Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { LinkForm } from './link-form.tsx';

const pageSize = 50;
const searchPauseMs = 250;

export function Links() {
  const { get, set } = useAddress();
  const canWrite = useCanWrite();
  const apps = useApps();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const query = {
    limit: pageSize,
    offset,
    app_id: get('app_id') ?? undefined,
    campaign: get('campaign') ?? undefined,
    tag: get('tag') ?? undefined,
    search: get('search') ?? undefined,
    archived: get('state') === 'archived',
    sort: get('sort') === 'clicks' ? ('clicks' as const) : ('created_at' as const),
  };
  const links = useQuery({
    queryKey: ['links', query],
    queryFn: () => call('GET /links', { query }),
    placeholderData: keepPreviousData,
  });
  const rows = links.data?.data ?? [];
  const isFiltered = ['app_id', 'campaign', 'tag', 'search', 'state'].some((name) => get(name) !== null);
  const hasNoApp = apps.data?.pagination.total === 0;
  return (
    <div>
      <div className="head">
        <h1>{t('nav.links')}</h1>
        {links.data ? <span className="tag">{whole(links.data.pagination.total)}</span> : null}
        <div className="row push">
          <Search />
          {(apps.data?.data.length ?? 0) > 1 ? (
            <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id, offset: null })} />
          ) : null}
          <Choice
            label={t('links.state')}
            isLabelHidden
            value={query.archived ? 'archived' : ''}
            options={[
              ['', t('links.active')],
              ['archived', t('links.archived')],
            ]}
            onChange={(value) => set({ state: value || null, offset: null })}
          />
          <Choice
            label={t('links.sort')}
            isLabelHidden
            value={query.sort}
            options={[
              ['created_at', t('links.newest')],
              ['clicks', t('links.most_clicks')],
            ]}
            onChange={(value) => set({ sort: value === 'clicks' ? value : null, offset: null })}
          />
          {canWrite && !hasNoApp ? (
            <button type="button" className="primary" onClick={() => set({ new: '1' })}>
              <Icon name="plus" />
              {t('link.new')}
            </button>
          ) : null}
        </div>
      </div>
      {links.isError && !links.data ? <Failure error={links.error} retry={() => void links.refetch()} /> : null}
      {links.data || !links.isError ? (
        <section className="card" aria-busy={links.isPlaceholderData}>
          {links.isPending ? <Loading lines={8} /> : null}
          {links.data && rows.length === 0 ? <NoLinks isFiltered={isFiltered} hasNoApp={hasNoApp} /> : null}
          {rows.length > 0 ? <LinkTable rows={rows} /> : null}
          {links.data && links.data.pagination.total > pageSize ? (
            <Pager {...links.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      ) : null}
      {get('new') !== null && canWrite && apps.data && !hasNoApp ? (
        <LinkForm link={null} appId={query.app_id} onClose={() => set({ new: null })} />
      ) : null}
    </div>
  );
}

function NoLinks({ isFiltered, hasNoApp }: { readonly isFiltered: boolean; readonly hasNoApp: boolean }) {
  const { set } = useAddress();
  if (isFiltered) {
    return (
      <Empty title={t('links.none_found')} text={t('links.none_found_text')}>
        <button
          type="button"
          onClick={() => set({ app_id: null, campaign: null, tag: null, search: null, state: null, offset: null })}
        >
          {t('filter.clear')}
        </button>
      </Empty>
    );
  }
  return (
    <Empty title={t('links.none')} text={t(hasNoApp ? 'links.none_no_app' : 'links.none_text')}>
      {hasNoApp ? <PageLink href="/apps">{t('first.app_action')}</PageLink> : null}
    </Empty>
  );
}

function Search() {
  const { get, set } = useAddress();
  const [text, setText] = useState(get('search') ?? '');
  const field = useRef<HTMLInputElement>(null);
  const wantsFocus = get('find') !== null;
  useEffect(() => {
    if (!wantsFocus) return;
    field.current?.focus();
    set({ find: null });
  }, [wantsFocus, set]);
  useEffect(() => {
    if (text === (get('search') ?? '')) return;
    const timer = setTimeout(() => set({ search: text || null, offset: null }), searchPauseMs);
    return () => clearTimeout(timer);
  }, [text, get, set]);
  return (
    <input
      ref={field}
      type="search"
      aria-label={t('links.search')}
      placeholder={t('links.search')}
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  );
}

/** Clicks of the shown links, in one request: the list itself has none. */
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

function LinkTable({ rows }: { readonly rows: readonly Link[] }) {
  const { set } = useAddress();
  const clicks = useClicks(rows);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
    <section className="scroll" tabIndex={0} aria-label={t('links.table')}>
      <table>
        <thead>
          <tr>
            <th>{t('links.link')}</th>
            <th className="hide-narrow">{t('links.campaign')}</th>
            <th className="hide-narrow">{t('links.tags')}</th>
            <th className="num">{t('metric.clicks')}</th>
            <th className="hide-narrow">{t('links.created')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((link) => (
            <tr key={link.id}>
              <td className="wide">
                <div className="two">
                  <span className="row">
                    <PageLink className="cut strong" href={`/links/${link.id}`}>
                      {link.title || bare(link.url)}
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
                    className="plain tag"
                    onClick={() => set({ campaign: filterValue(link.campaign ?? ''), offset: null })}
                  >
                    {link.campaign}
                  </button>
                ) : null}
              </td>
              <td className="hide-narrow">
                <span className="row wrap">
                  {link.tags.slice(0, 3).map((tag) => (
                    <button key={tag} type="button" className="plain tag" onClick={() => set({ tag, offset: null })}>
                      {tag}
                    </button>
                  ))}
                  {link.tags.length > 3 ? <span className="small muted">+{link.tags.length - 3}</span> : null}
                </span>
              </td>
              <td className="num">{clicks ? short(clicks.get(link.id) ?? 0) : <span className="loading">000</span>}</td>
              <td className="hide-narrow muted nowrap" title={link.created_at}>
                {ago(link.created_at)}
              </td>
              <td className="num">
                <CopyButton text={link.url} label={t('copy')} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export function LinkState({ link }: { readonly link: Link }) {
  if (link.archived) return <span className="tag">{t('link.archived')}</span>;
  if (link.expires_at && Date.parse(link.expires_at) <= Date.now())
    return <span className="tag bad">{t('link.expired')}</span>;
  if (link.expires_at) return <span className="tag warn">{t('link.expires_in', { time: ago(link.expires_at) })}</span>;
  return null;
}
