/** Invitations: the dialog, the resulting link, and open invitations. Only for owners. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import { ago, date } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { Confirm, Dialog } from '#dashboard/parts/dialog.tsx';
import { CopyButton, Failure, failureText, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { type Role, roles, useOwned } from '#dashboard/people.ts';
import { language, named, t } from '#dashboard/texts/text.ts';

type Open = Answer<'GET /invitations'>['data'][number];
type Made = Answer<'POST /invitations'>;
interface Wanted {
  readonly organization_id: string;
  readonly email: string;
  readonly role: Role;
}

const pageSize = 20;

function useInvite() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Wanted) => call('POST /invitations', { body: { ...body, language } }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['invitations'] }),
  });
}

export function InviteDialog({ onClose }: { readonly onClose: () => void }) {
  const owned = useOwned();
  const [organization_id, setOrganization] = useState(owned[0]?.id ?? '');
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Role>('member');
  const invite = useInvite();
  const fault = invite.error instanceof ApiFailure ? invite.error.fields.get('email') : undefined;
  if (invite.data) return <InvitationReady made={invite.data} onClose={onClose} />;
  return (
    <Dialog title={t('invite.title')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          invite.mutate({ organization_id, email: email.trim(), role });
        }}
      >
        <div className="fields">
          {invite.isError && fault === undefined ? <Failure error={invite.error} /> : null}
          <Field
            label={t('login.email')}
            type="email"
            inputMode="email"
            value={email}
            onChange={setEmail}
            fault={fault}
            isRequired
            hasFocus
          />
          <Choice
            label={t('members.role')}
            value={role}
            options={roles.map((one) => [one, t(`role.${one}`)] as const)}
            onChange={setRole}
          />
          <p className="hint">{t(`invitation.${role}`)}</p>
          {owned.length > 1 ? (
            <Choice
              label={t('app.organization')}
              value={organization_id}
              options={owned.map(({ id, name }) => [id, name] as const)}
              onChange={setOrganization}
            />
          ) : null}
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={invite.isPending}>
            {t('invite.send')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** How the person gets the link: by mail, or from the owner, who sees it only here. */
function InvitationReady({ made, onClose }: { readonly made: Made; readonly onClose: () => void }) {
  return (
    <Dialog title={t('invite.ready')} isDrawer onClose={onClose}>
      <div className="fields">
        {made.mail === 'waiting' ? <p className="notice">{t('invite.mailed', { email: made.email })}</p> : null}
        {made.mail === 'limited' ? <p className="notice warn">{t('invite.limited')}</p> : null}
        {made.url === undefined ? null : (
          <>
            <p className="notice warn">{t('invite.once', { email: made.email })}</p>
            <div className="secret">
              <code>{made.url}</code>
              <CopyButton text={made.url} label={t('invite.copy')} />
            </div>
          </>
        )}
        <p className="hint">{t('invite.works')}</p>
      </div>
      <footer>
        <button type="button" className="primary" onClick={onClose}>
          {t('done')}
        </button>
      </footer>
    </Dialog>
  );
}

/** Hidden if there are no open invitations. */
export function OpenInvitations() {
  const { get, set } = useAddress();
  const offset = Math.max(0, Number(get('invitations')) || 0);
  const query = { limit: pageSize, offset };
  const open = useQuery({ queryKey: ['invitations', query], queryFn: () => call('GET /invitations', { query }) });
  const again = useInvite();
  const [withdrawn, setWithdrawn] = useState<Open | null>(null);
  const rows = open.data?.data ?? [];
  return (
    <>
      {open.isError ? <Failure error={open.error} retry={() => void open.refetch()} /> : null}
      {rows.length > 0 ? (
        <section className="card">
          <header>
            <h2>{t('invite.open')}</h2>
          </header>
          <InvitationTable
            rows={rows}
            isBusy={again.isPending}
            onAgain={({ organization_id, email, role }) =>
              again.mutate({ organization_id, email, role }, { onError: (error) => toast(failureText(error)) })
            }
            onWithdraw={setWithdrawn}
          />
          {open.data && open.data.pagination.total > pageSize ? (
            <Pager
              {...open.data.pagination}
              onMove={(next) => set({ invitations: next === 0 ? null : String(next) })}
            />
          ) : null}
        </section>
      ) : null}
      {again.data ? <InvitationReady made={again.data} onClose={again.reset} /> : null}
      {withdrawn ? <Withdraw invitation={withdrawn} onClose={() => setWithdrawn(null)} /> : null}
    </>
  );
}

interface InvitationTableProps {
  readonly rows: readonly Open[];
  readonly isBusy: boolean;
  readonly onAgain: (invitation: Open) => void;
  readonly onWithdraw: (invitation: Open) => void;
}

function InvitationTable({ rows, isBusy, onAgain, onWithdraw }: InvitationTableProps) {
  const { timezone } = useView();
  const { organizations } = useMe();
  const hasMany = organizations.length > 1;
  return (
    <ScrollArea label={t('invite.open')}>
      <table>
        <thead>
          <tr>
            <th>{t('login.email')}</th>
            {hasMany ? <th className="hide-narrow">{t('members.organization')}</th> : null}
            <th className="hide-narrow">{t('members.role')}</th>
            <th className="hide-narrow">{t('invite.made')}</th>
            <th className="hide-narrow">{t('invite.ends')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => (
            <tr key={one.id}>
              <td>
                <span className="row wrap">
                  <span className="strong">{one.email}</span>
                  {one.mail === 'waiting' ? <span className="tag">{t('invite.waiting')}</span> : null}
                  {one.mail === 'failed' ? <span className="tag bad">{t('invite.failed')}</span> : null}
                </span>
              </td>
              {hasMany ? (
                <td className="hide-narrow">{organizations.find(({ id }) => id === one.organization_id)?.name}</td>
              ) : null}
              <td className="hide-narrow">{named('role', one.role)}</td>
              <td className="hide-narrow muted nowrap">{ago(one.created_at)}</td>
              <td className="hide-narrow muted nowrap">{date(one.expires_at, timezone)}</td>
              <td>
                <span className="row wrap ends-row">
                  <button
                    type="button"
                    disabled={isBusy}
                    aria-label={t('invite.again_to', { email: one.email })}
                    onClick={() => onAgain(one)}
                  >
                    {t('invite.again')}
                  </button>
                  <button
                    type="button"
                    className="danger"
                    aria-label={t('invite.withdraw_of', { email: one.email })}
                    onClick={() => onWithdraw(one)}
                  >
                    {t('invite.withdraw')}
                  </button>
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}

function Withdraw({ invitation, onClose }: { readonly invitation: Open; readonly onClose: () => void }) {
  const client = useQueryClient();
  const withdraw = useMutation({
    mutationFn: () => call('DELETE /invitations/{invitation_id}', { params: { invitation_id: invitation.id } }),
    onSuccess: () => {
      toast(t('invite.withdrawn'));
      onClose();
    },
    onError: (error) => toast(failureText(error)),
    // Also after a failure, because it may have been accepted in the meantime.
    onSettled: () => client.invalidateQueries({ queryKey: ['invitations'] }),
  });
  return (
    <Confirm
      title={t('invite.withdraw_of', { email: invitation.email })}
      text={t('invite.withdraw_text')}
      action={t('invite.withdraw')}
      isBusy={withdraw.isPending}
      onConfirm={() => withdraw.mutate()}
      onClose={onClose}
    />
  );
}
