/** Limits this browser to one of the user's organizations. Hidden if the user has only one. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { call } from '#dashboard/api.ts';
import { useMe } from '#dashboard/me.ts';
import { announceSession } from '#dashboard/session-changes.ts';
import { t } from '#dashboard/texts/text.ts';
import { failureText, toast } from './feedback.tsx';
import { Choice } from './fields.tsx';

export function OrganizationChoice() {
  const { all, organization_id } = useMe();
  const client = useQueryClient();
  const choose = useMutation({
    mutationFn: (id: string) => call('PUT /session/organization', { body: { organization_id: id === '' ? null : id } }),
    onSuccess: async () => {
      announceSession();
      await client.refetchQueries({ queryKey: ['me'] });
    },
    onError: (error) => toast(failureText(error)),
  });
  if (all.length < 2) return null;
  return (
    <Choice
      label={t('members.organization')}
      isLabelHidden
      value={choose.isPending ? choose.variables : (organization_id ?? '')}
      options={[['', t('organization.all')] as const, ...all.map(({ id, name }) => [id, name] as const)]}
      onChange={(id) => choose.mutate(id)}
    />
  );
}
