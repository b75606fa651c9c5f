/** The user's organizations: owners rename them, and everyone can leave one that has another owner. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { type Me, useMe } from '#dashboard/me.ts';
import { Confirm, Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { peopleFault } from '#dashboard/people.ts';
import { t } from '#dashboard/texts/text.ts';

type Organization = Me['organizations'][number];

export function Organizations() {
  const { organizations } = useMe();
  const [renamed, setRenamed] = useState<Organization | null>(null);
  const [left, setLeft] = useState<Organization | null>(null);
  return (
    <section className="card">
      <header>
        <h2>{t(organizations.length > 1 ? 'account.organizations' : 'members.organization')}</h2>
      </header>
      <ul>
        {organizations.map((one) => (
          <li key={one.id} className="row wrap inside">
            <div className="two">
              <span className="strong">{one.name}</span>
              <span className="muted small">{t('invitation.text', { role: t(`role.${one.role}`) })}</span>
            </div>
            <span className="row push">
              {one.role === 'owner' ? (
                <button
                  type="button"
                  aria-label={t('organization.rename_it', { name: one.name })}
                  onClick={() => setRenamed(one)}
                >
                  {t('organization.rename')}
                </button>
              ) : null}
              <button
                type="button"
                className="danger"
                aria-label={t('organization.leave_it', { name: one.name })}
                onClick={() => setLeft(one)}
              >
                {t('organization.leave')}
              </button>
            </span>
          </li>
        ))}
      </ul>
      {renamed ? <Rename organization={renamed} onClose={() => setRenamed(null)} /> : null}
      {left ? <Leave organization={left} onClose={() => setLeft(null)} /> : null}
    </section>
  );
}

interface OrganizationProps {
  readonly organization: Organization;
  readonly onClose: () => void;
}

function Rename({ organization: { id, name }, onClose }: OrganizationProps) {
  const [wanted, setWanted] = useState(name);
  const client = useQueryClient();
  const rename = useMutation({
    mutationFn: () =>
      call('PATCH /organizations/{organization_id}', { params: { organization_id: id }, body: { name: wanted } }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['me'] });
      toast(t('saved'));
      onClose();
    },
  });
  const fault = rename.error instanceof ApiFailure ? rename.error.fields.get('name') : undefined;
  return (
    <Dialog title={t('organization.rename_it', { name })} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          rename.mutate();
        }}
      >
        <div className="fields">
          {rename.isError && fault === undefined ? <Failure error={rename.error} /> : null}
          <Field
            label={t('organization.name')}
            value={wanted}
            onChange={setWanted}
            fault={fault}
            autoComplete="organization"
            isRequired
            hasFocus
          />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={rename.isPending}>
            {t('save')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Leave({ organization: { id, name }, onClose }: OrganizationProps) {
  const { user } = useMe();
  const client = useQueryClient();
  const leave = useMutation({
    mutationFn: () =>
      call('DELETE /members/{user_id}', { params: { user_id: user.id }, query: { organization_id: id } }),
    onSuccess: async () => {
      onClose();
      toast(t('organization.left', { name }));
      // All cached data may belong to this organization.
      await client.invalidateQueries();
    },
    onError: (error) => toast(peopleFault(error)),
  });
  return (
    <Confirm
      title={t('organization.leave_it', { name })}
      text={t('organization.leave_text')}
      action={t('organization.leave')}
      isBusy={leave.isPending}
      onConfirm={() => leave.mutate()}
      onClose={onClose}
    />
  );
}
