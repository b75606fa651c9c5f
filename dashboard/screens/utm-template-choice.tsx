/** Fills the UTM parameters of a link that is being edited. Hidden if the app has no templates. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '#dashboard/api.ts';
import { Choice } from '#dashboard/parts/fields.tsx';
import { t } from '#dashboard/texts/text.ts';
import { chosenInstead, isFilledFrom, shownParameters, type UtmDraft } from '#dashboard/utm.ts';

interface UtmTemplateChoiceProps {
  readonly appId: string;
  readonly draft: UtmDraft;
  readonly onChange: (draft: UtmDraft) => void;
}

export function UtmTemplateChoice({ appId, draft, onChange }: UtmTemplateChoiceProps) {
  const [chosenId, setChosen] = useState('');
  const found = useQuery({
    queryKey: ['utm-templates', 'of', appId],
    queryFn: () => call('GET /utm-templates', { query: { app_id: appId, limit: 100 } }),
    enabled: appId !== '',
  });
  const templates = found.data?.data ?? [];
  if (templates.length === 0) return null;
  const before = templates.find(({ id }) => id === chosenId);
  const isChosen = before !== undefined && isFilledFrom(before, draft);
  return (
    <Choice
      label={t('utm.template')}
      value={isChosen ? before.id : ''}
      options={[
        ['', t('utm.no_template')] as const,
        ...templates.map((one) => [one.id, `${one.name} (${shownParameters(one)})`] as const),
      ]}
      onChange={(id) => {
        setChosen(id);
        onChange(
          chosenInstead(
            draft,
            before,
            templates.find((one) => one.id === id),
          ),
        );
      }}
    />
  );
}
