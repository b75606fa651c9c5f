/** Changes the user's own password. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { t } from '#dashboard/texts/text.ts';

export function Password() {
  const [isOpen, setOpen] = useState(false);
  const [present, setPresent] = useState('');
  const [wanted, setWanted] = useState('');
  const client = useQueryClient();
  const close = () => {
    setOpen(false);
    setPresent('');
    setWanted('');
  };
  const change = useMutation({
    mutationFn: () => call('POST /me/password', { body: { present_password: present, new_password: wanted } }),
    onSuccess: async () => {
      close();
      toast(t('password.changed'));
      await client.invalidateQueries({ queryKey: ['sessions'] });
    },
  });
  const faults = change.error instanceof ApiFailure ? change.error.fields : new Map<string, string>();
  return (
    <section className="card">
      <header>
        <h2>{t('login.password')}</h2>
      </header>
      <div className="inside">
        {isOpen ? (
          <form
            className="stack"
            onSubmit={(event) => {
              event.preventDefault();
              change.mutate();
            }}
          >
            {change.isError && faults.size === 0 ? <Failure error={change.error} /> : null}
            <Field
              label={t('password.present')}
              type="password"
              autoComplete="current-password"
              value={present}
              onChange={setPresent}
              fault={faults.get('present_password')}
              isRequired
              hasFocus
            />
            <Field
              label={t('password.new')}
              type="password"
              autoComplete="new-password"
              value={wanted}
              onChange={setWanted}
              fault={faults.get('new_password')}
              hint={t('password.hint')}
              isRequired
            />
            <p className="muted small">{t('password.ends')}</p>
            <div className="row">
              <button type="submit" className="primary" disabled={change.isPending}>
                {t('password.change')}
              </button>
              <button type="button" onClick={close}>
                {t('cancel')}
              </button>
            </div>
          </form>
        ) : (
          <button type="button" onClick={() => setOpen(true)}>
            {t('password.change')}
          </button>
        )}
      </div>
    </section>
  );
}
