import type { Import } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

const tones: Readonly<Partial<Record<Import['state'], string>>> = {
  checked: 'warn',
  failed: 'bad',
  imported: 'good',
};

export function ImportState({ state }: Pick<Import, 'state'>) {
  return <span className={`tag ${tones[state] ?? ''}`}>{t(`imports.state.${state}`)}</span>;
}
