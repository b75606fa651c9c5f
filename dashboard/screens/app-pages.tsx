/** The HTML that browsers get in place of Signpost's own answers. */
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
