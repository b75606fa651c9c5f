/** The list of links, with search, filters and pages. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { Link as PageLink } from 'wouter';
import { shownValue, useAddress } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { whole } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { LinkTabs } from '#dashboard/parts/link-tabs.tsx';
import { LinksCsv } from '#dashboard/parts/list-csv.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { Chip } from '#dashboard/parts/period-bar.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { BulkBar } from './bulk-bar.tsx';
import { LinkForm } from './link-form.tsx';
import { type Choice as ChosenLinks, LinkTable } from './link-table.tsx';

const pageSize = 50;
const searchPauseMs = 250;

export function Links() {
  const { get, set } = useAddress();
  const canWrite = useCanWrite();
  const apps = useApps();
  const { offset, cursor } = placeIn(get('offset'));
  const filter = useFilter();
  const query = {
    ...filter,
    limit: pageSize,
    ...(get('sort') === 'clicks'
      ? { sort: 'clicks' as const, offset }
      : { sort: 'created_at' as const, ...(cursor === undefined ? { offset } : { cursor }) }),
  };
  const { chosen, setChosen, choice } = useChosen(JSON.stringify(filter));
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
        {rows.length > 0 ? <LinksCsv query={{ ...filter, sort: query.sort }} /> : null}
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
            <PageLink className="button" href="/integrations/imports">
              {t('links.import')}
            </PageLink>
          ) : null}
          {canWrite && !hasNoApp ? (
            <button type="button" className="primary" onClick={() => set({ new: '1' })}>
              <Icon name="plus" />
              {t('link.new')}
            </button>
          ) : null}
        </div>
      </div>
      <LinkTabs />
      {links.isError && !links.data ? <Failure error={links.error} retry={() => void links.refetch()} /> : null}
      <Chips />
      {canWrite && links.data ? (
        <BulkBar
          ids={[...chosen]}
          total={links.data.pagination.total}
          filter={filter}
          areArchived={filter.archived}
          onChoose={(ids) => setChosen(new Set(ids))}
        />
      ) : null}
      {links.data || !links.isError ? (
        <section className="card" aria-busy={links.isPlaceholderData}>
          {links.isPending ? <Loading lines={8} /> : null}
          {links.data && rows.length === 0 ? <NoLinks isFiltered={isFiltered} hasNoApp={hasNoApp} /> : null}
          {rows.length > 0 ? (
            <LinkTable rows={rows} choice={canWrite ? choice : undefined} isStale={links.isPlaceholderData} />
          ) : null}
          {links.data && links.data.pagination.total > pageSize ? (
            <Pager
              {...links.data.pagination}
              offset={offset}
              onMove={(next) => {
                const isNext = next > offset && !links.isPlaceholderData;
                set({ offset: placeText(next, isNext ? links.data.pagination.next_cursor : null) });
              }}
            />
          ) : null}
        </section>
      ) : null}
      {get('new') !== null && canWrite && apps.data && !hasNoApp ? (
        <LinkForm link={null} appId={query.app_id} onClose={() => set({ new: null })} />
      ) : null}
    </div>
  );
}

/**
 * The position of a page in the list, with a cursor if the previous page was seen: such a page costs the same at any
 * depth, and repeats nothing when links are created in the meantime. One parameter, so that one change removes both.
 */
function placeIn(text: string | null): { readonly offset: number; readonly cursor: string | undefined } {
  const [at, after] = (text ?? '').split('~');
  const offset = Math.max(0, Number(at) || 0);
  // An empty cursor stands for the first page.
  return { offset, cursor: offset === 0 ? '' : after };
}

function placeText(offset: number, cursor: string | null | undefined): string | null {
  if (offset <= 0) return null;
  return cursor ? `${offset}~${cursor}` : String(offset);
}

/** Other screens escape filters because they accept several values; here a campaign is a single value. */
function useFilter() {
  const { get } = useAddress();
  const campaign = get('campaign');
  return useMemo(
    () => ({
      app_id: get('app_id') ?? undefined,
      campaign: campaign === null ? undefined : shownValue(campaign),
      tag: get('tag') ?? undefined,
      search: get('search') ?? undefined,
      archived: get('state') === 'archived',
    }),
    [get, campaign],
  );
}

/** Links stay selected across pages; changing the filters clears the selection, so that nothing hidden is selected. */
function useChosen(list: string) {
  const [of, setOf] = useState<{ readonly list: string; readonly ids: ReadonlySet<string> }>({ list, ids: new Set() });
  const chosen = useMemo(() => (of.list === list ? of.ids : new Set<string>()), [of, list]);
  const setChosen = useCallback((ids: ReadonlySet<string>) => setOf({ list, ids }), [list]);
  const choice = useMemo<ChosenLinks>(
    () => ({
      has: (id) => chosen.has(id),
      choose: (ids, isChosen) => {
        const next = new Set(chosen);
        for (const id of ids) {
          if (isChosen) next.add(id);
          else next.delete(id);
        }
        setChosen(next);
      },
    }),
    [chosen, setChosen],
  );
  return { chosen, setChosen, choice };
}

/** Filters by campaign and tag, set by a click in the table. */
function Chips() {
  const { get, set } = useAddress();
  const active = (['campaign', 'tag'] as const).flatMap((name) => {
    const value = get(name);
    return value === null ? [] : [[name, shownValue(value)] as const];
  });
  if (active.length === 0) return null;
  return (
    <div className="row wrap below">
      {active.map(([name, value]) => (
        <Chip
          key={name}
          label={t(`filter.${name}`)}
          value={value}
          onRemove={() => set({ [name]: null, offset: null })}
        />
      ))}
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
      {hasNoApp ? (
        <PageLink href="/apps">{t('first.app_action')}</PageLink>
      ) : (
        <PageLink href="/integrations/imports">{t('links.import_text')}</PageLink>
      )}
    </Empty>
  );
}

function Search() {
  const { get, set } = useAddress();
  const inUrl = get('search') ?? '';
  const [text, setText] = useState(inUrl);
  const [lastInUrl, setLastInUrl] = useState(inUrl);
  // The URL also changes without typing, such as by Back: the field then shows the new search instead of writing its own.
  if (inUrl !== lastInUrl) {
    setLastInUrl(inUrl);
    setText(inUrl);
  }
  const field = useRef<HTMLInputElement>(null);
  const wantsFocus = get('find') !== null;
  useEffect(() => {
    if (!wantsFocus) return;
    field.current?.focus();
    set({ find: null });
  }, [wantsFocus, set]);
  useEffect(() => {
    if (text === inUrl) return;
    const timer = setTimeout(() => set({ search: text || null, offset: null }), searchPauseMs);
    return () => clearTimeout(timer);
  }, [text, inUrl, set]);
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
