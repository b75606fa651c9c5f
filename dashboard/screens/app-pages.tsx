/** Custom HTML pages that browsers get instead of Signpost's own. */
import type { ComponentProps } from 'react';
import { Area } from '#dashboard/parts/area.tsx';
import { t } from '#dashboard/texts/text.ts';

type PageField = Pick<ComponentProps<typeof Area>, 'value' | 'onChange' | 'fault'>;

export function AppPages({ notFound, expired }: { readonly notFound: PageField; readonly expired: PageField }) {
  return (
    <>
      <h3>{t('app.pages')}</h3>
      <Area label={t('app.page_not_found')} {...notFound} isCode />
      <Area label={t('app.page_expired')} {...expired} hint={t('app.pages_hint')} isCode />
    </>
  );
}
