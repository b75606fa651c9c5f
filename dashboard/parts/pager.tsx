import { whole } from '#dashboard/format.ts';
import { t } from '#dashboard/texts/text.ts';
import { Icon } from './icons.tsx';

interface PagerProps {
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  readonly has_more: boolean;
  readonly onMove: (offset: number) => void;
}

export function Pager({ total, limit, offset, has_more, onMove }: PagerProps) {
  const values = { from: whole(offset + 1), to: whole(Math.min(offset + limit, total)), total: whole(total) };
  return (
    <div className="pager">
      <span>{t('pager', values)}</span>
      <button
        type="button"
        className="icon push"
        aria-label={t('pager.before')}
        disabled={offset === 0}
        onClick={() => onMove(Math.max(0, offset - limit))}
      >
        <Icon name="back" />
      </button>
      <button
        type="button"
        className="icon"
        aria-label={t('pager.after')}
        disabled={!has_more}
        onClick={() => onMove(offset + limit)}
      >
        <Icon name="forward" />
      </button>
    </div>
  );
}
