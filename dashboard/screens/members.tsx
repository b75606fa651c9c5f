/** The people of the organizations, and what each may do. */
import { useQuery } from '@tanstack/react-query';
import { useAddress, useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { date, whole } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { PeopleTabs } from '#dashboard/parts/people-tabs.tsx';
import { named, t } from '#dashboard/texts/text.ts';

const pageSize = 50;

export function Members() {
  const { get, set } = useAddress();
  const { timezone } = useView();
  const { user, organizations } = useMe();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const query = { limit: pageSize, offset };
  const members = useQuery({ queryKey: ['members', query], queryFn: () => call('GET /members', { query }) });
  const hasMany = organizations.length > 1;
  return (
    <div>
      <div className="head">
        <h1>{t('nav.members')}</h1>
        {members.data ? <span className="tag">{whole(members.data.pagination.total)}</span> : null}
      </div>
      <PeopleTabs />
      <p className="muted lead">{t('members.how')}</p>
      {members.isError ? <Failure error={members.error} retry={() => void members.refetch()} /> : null}
      {members.isError ? null : (
        <section className="card">
          {members.data ? null : <Loading />}
          {members.data ? (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
            <section className="scroll" tabIndex={0} aria-label={t('members.table')}>
              <table>
                <thead>
                  <tr>
                    <th>{t('members.person')}</th>
                    {hasMany ? <th>{t('members.organization')}</th> : null}
                    <th>{t('members.role')}</th>
                    <th className="hide-narrow">{t('members.joined')}</th>
                  </tr>
                </thead>
                <tbody>
                  {members.data.data.map((member) => (
                    <tr key={member.user_id + member.organization_id}>
                      <td>
                        <div className="two">
                          <span className="row">
                            <span className="strong">{member.name || member.email}</span>
                            {member.user_id === user.id ? <span className="tag">{t('members.you')}</span> : null}
                            {member.is_disabled ? <span className="tag bad">{t('members.disabled')}</span> : null}
                          </span>
                          {member.name ? <span className="muted small">{member.email}</span> : null}
                        </div>
                      </td>
                      {hasMany ? <td>{organizations.find(({ id }) => id === member.organization_id)?.name}</td> : null}
                      <td>{named('role', member.role)}</td>
                      <td className="hide-narrow muted nowrap">{date(member.created_at, timezone)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          ) : null}
          {members.data && members.data.pagination.total > pageSize ? (
            <Pager {...members.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      )}
    </div>
  );
}
