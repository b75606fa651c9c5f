/** Copies of Apple's postbacks: counts by source and value, and the newest ones with their status. */
import { useQuery } from '@tanstack/react-query';
import { useAddress } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { ago, whole } from '#dashboard/format.ts';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { refreshMs, useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';

type Found = Answer<'GET /apps/{app_id}/ad-postbacks'>;
type Copy = Found['data'][number];
type Count = NonNullable<Found['counts']>[number];

const shownMax = 20;
const sourceOf = ({ source_identifier, campaign_id }: Count | Copy) => source_identifier ?? campaign_id ?? '–';
const conversionOf = ({ conversion_value, coarse_conversion_value }: Count | Copy) =>
  conversion_value ?? (coarse_conversion_value ? named('copies.value', coarse_conversion_value) : '–');

const stateTag = ({ unverified_reason: why }: Copy) =>
  why === null ? 'tag good' : why === 'development' ? 'tag' : 'tag bad';

/** Hidden if no app is in the App Store. */
export function AdPostbacks() {
  const { get, set } = useAddress();
  const inStore = useApps().data?.data.filter(({ ios }) => ios?.app_store_id) ?? [];
  const app = inStore.find(({ id }) => id === get('app_id')) ?? inStore[0];
  const found = useQuery({
    queryKey: ['ad-postbacks', app?.id],
    queryFn: () =>
      call('GET /apps/{app_id}/ad-postbacks', { params: { app_id: app?.id ?? '' }, query: { limit: shownMax } }),
    enabled: app !== undefined,
    refetchInterval: refreshMs,
  });
  if (app === undefined) return null;
  const { data = [], counts } = found.data ?? {};
  return (
    <section className="after">
      <div className="head">
        <h2>{t('copies.title')}</h2>
        {inStore.length > 1 ? (
          <div className="row push">
            <Choice
              label={t('filter.app_id')}
              isLabelHidden
              value={app.id}
              options={inStore.map(({ id, name }) => [id, name] as const)}
              onChange={(id) => set({ app_id: id })}
            />
          </div>
        ) : null}
      </div>
      <p className="muted lead">{t('copies.text')}</p>
      {found.isError && !found.data ? (
        <Failure error={found.error} retry={() => void found.refetch()} />
      ) : (
        <div className="stack">
          {data.length === 0 ? (
            <div className="card">
              {found.data ? <Empty title={t('copies.none')} text={t('copies.none_text')} /> : <Loading />}
            </div>
          ) : null}
          {counts && counts.length > 0 ? <CountTable rows={counts} /> : null}
          {data.length > 0 ? <CopyTable rows={data} /> : null}
        </div>
      )}
    </section>
  );
}

function CountTable({ rows }: { readonly rows: readonly Count[] }) {
  return (
    <div className="card">
      <ScrollArea label={t('copies.counts')}>
        <table>
          <caption>{t('copies.counts')}</caption>
          <thead>
            <tr>
              <th>{t('copies.network')}</th>
              <th>{t('copies.source')}</th>
              <th>{t('copies.conversion_value')}</th>
              <th className="hide-narrow">{t('copies.window')}</th>
              <th className="num">{t('copies.count')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={JSON.stringify(row)}>
                <td className="wide breaks">{row.ad_network_id ?? '–'}</td>
                <td>{sourceOf(row)}</td>
                <td>{conversionOf(row)}</td>
                <td className="hide-narrow">{row.sequence_index + 1}</td>
                <td className="num">{whole(row.postbacks)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollArea>
    </div>
  );
}

function CopyTable({ rows }: { readonly rows: readonly Copy[] }) {
  return (
    <div className="card">
      <ScrollArea label={t('copies.newest')}>
        <table>
          <caption>{t('copies.newest')}</caption>
          <thead>
            <tr>
              <th>{t('copies.network')}</th>
              <th>{t('copies.source')}</th>
              <th className="hide-narrow">{t('copies.received')}</th>
              <th>{t('hooks.state')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={`${row.framework} ${row.transaction_id} ${row.sequence_index}`}>
                <td className="wide breaks">{row.ad_network_id ?? '–'}</td>
                <td>{sourceOf(row)}</td>
                <td className="hide-narrow muted nowrap" title={row.received_at}>
                  {ago(row.received_at)}
                </td>
                <td>
                  <span className={stateTag(row)}>{named('copies.state', row.unverified_reason ?? 'verified')}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollArea>
    </div>
  );
}
