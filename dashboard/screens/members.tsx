/** The members of the organizations and their roles. Owners can invite, change roles and remove. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { date, whole } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { Confirm } from '#dashboard/parts/dialog.tsx';
import { Failure, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { MembersCsv } from '#dashboard/parts/list-csv.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { PeopleTabs } from '#dashboard/parts/people-tabs.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { peopleFault, type Role, roles, useOwned } from '#dashboard/people.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { InviteDialog, OpenInvitations } from './invitations.tsx';
import { Organizations } from './organizations.tsx';

type Member = Answer<'GET /members'>['data'][number];

const pageSize = 50;

export function Members() {
  const { get, set } = useAddress();
  const owned = useOwned();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const query = { limit: pageSize, offset };
  const members = useQuery({ queryKey: ['members', query], queryFn: () => call('GET /members', { query }) });
  const [removed, setRemoved] = useState<Member | null>(null);
  const isOwner = owned.length > 0;
  return (
    <div className="stack">
      <div className="head">
        <h1>{t('nav.members')}</h1>
        {members.data ? <span className="tag">{whole(members.data.pagination.total)}</span> : null}
        <MembersCsv />
        {isOwner ? (
          <button type="button" className="primary push" onClick={() => set({ new: '1' })}>
            <Icon name="plus" />
            {t('invite.title')}
          </button>
        ) : null}
      </div>
      <PeopleTabs />
      {members.isError ? <Failure error={members.error} retry={() => void members.refetch()} /> : null}
      {members.isError ? null : (
        <section className="card">
          {members.data ? null : <Loading />}
          {members.data ? <MemberTable rows={members.data.data} onRemove={setRemoved} /> : null}
          {members.data && members.data.pagination.total > pageSize ? (
            <Pager {...members.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      )}
      {isOwner ? <OpenInvitations /> : null}
      <Organizations />
      {get('new') !== null && isOwner ? <InviteDialog onClose={() => set({ new: null })} /> : null}
      {removed ? <RemoveMember member={removed} onClose={() => setRemoved(null)} /> : null}
    </div>
  );
}

interface MemberTableProps {
  readonly rows: readonly Member[];
  readonly onRemove: (member: Member) => void;
}

function MemberTable({ rows, onRemove }: MemberTableProps) {
  const { timezone } = useView();
  const { user, organizations } = useMe();
  const owned = useOwned();
  const hasMany = organizations.length > 1;
  return (
    <ScrollArea label={t('members.table')}>
      <table>
        <thead>
          <tr>
            <th>{t('members.person')}</th>
            {hasMany ? <th>{t('members.organization')}</th> : null}
            <th>{t('members.role')}</th>
            <th className="hide-narrow">{t('members.joined')}</th>
            {owned.length > 0 ? (
              <th>
                <span className="sr">{t('links.actions')}</span>
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((member) => {
            const isOwn = member.user_id === user.id;
            const isManaged = owned.some(({ id }) => id === member.organization_id);
            return (
              <tr key={member.user_id + member.organization_id}>
                <td className="breaks">
                  <div className="two">
                    <span className="row wrap">
                      <span className="strong">{member.name || member.email}</span>
                      {isOwn ? <span className="tag">{t('members.you')}</span> : null}
                      {member.is_disabled ? <span className="tag bad">{t('members.disabled')}</span> : null}
                    </span>
                    {member.name ? <span className="muted small">{member.email}</span> : null}
                  </div>
                </td>
                {hasMany ? <td>{organizations.find(({ id }) => id === member.organization_id)?.name}</td> : null}
                <td>{isManaged && !isOwn ? <RoleOf member={member} /> : named('role', member.role)}</td>
                <td className="hide-narrow muted nowrap">{date(member.created_at, timezone)}</td>
                {owned.length > 0 ? (
                  <td className="num">
                    {isManaged && !isOwn ? (
                      <button
                        type="button"
                        className="danger"
                        aria-label={t('members.remove_person', { name: member.name || member.email })}
                        onClick={() => onRemove(member)}
                      >
                        {t('members.remove')}
                      </button>
                    ) : null}
                  </td>
                ) : null}
              </tr>
            );
          })}
        </tbody>
      </table>
    </ScrollArea>
  );
}

/** Takes effect immediately. */
function RoleOf({ member }: { readonly member: Member }) {
  const { user_id, organization_id } = member;
  const client = useQueryClient();
  const change = useMutation({
    mutationFn: (role: Role) =>
      call('PATCH /members/{user_id}', { params: { user_id }, body: { organization_id, role } }),
    onSuccess: () => toast(t('members.changed')),
    onError: (error) => toast(peopleFault(error)),
    onSettled: () => client.invalidateQueries({ queryKey: ['members'] }),
  });
  return (
    <Choice
      label={t('members.role_of', { name: member.name || member.email })}
      isLabelHidden
      value={change.isPending ? change.variables : member.role}
      options={roles.map((role) => [role, t(`role.${role}`)] as const)}
      onChange={(role) => change.mutate(role)}
    />
  );
}

function RemoveMember({ member, onClose }: { readonly member: Member; readonly onClose: () => void }) {
  const { organizations } = useMe();
  const { user_id, organization_id } = member;
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => call('DELETE /members/{user_id}', { params: { user_id }, query: { organization_id } }),
    onSuccess: () => {
      toast(t('members.removed'));
      onClose();
    },
    onError: (error) => toast(peopleFault(error)),
    onSettled: () => client.invalidateQueries({ queryKey: ['members'] }),
  });
  const values = {
    name: member.name || member.email,
    organization: organizations.find(({ id }) => id === organization_id)?.name ?? '',
  };
  return (
    <Confirm
      title={t('members.remove_person', values)}
      text={t('members.remove_text', values)}
      action={t('members.remove')}
      isBusy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    />
  );
}
