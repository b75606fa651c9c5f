/** Loads a list page by page and saves it as a file, showing the number of rows in the meantime. */
import { useState } from 'react';
import { type Column, csvOf, download } from '#dashboard/csv.ts';
import { whole } from '#dashboard/format.ts';
import { withRetries } from '#dashboard/retries.ts';
import { t } from '#dashboard/texts/text.ts';
import { failureText, toast } from './feedback.tsx';
import { Icon } from './icons.tsx';

interface CsvButtonProps<Row> {
  /** File name without its extension. */
  readonly name: string;
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rowsMax: number;
  readonly load: (
    limit: number,
    offset: number,
  ) => Promise<{ readonly rows: readonly Row[]; readonly hasMore: boolean }>;
}

const pageSize = 100;

export function CsvButton<Row>({ name, label, columns, rowsMax, load }: CsvButtonProps<Row>) {
  const [count, setCount] = useState<number | null>(null);
  const save = async () => {
    const rows: Row[] = [];
    setCount(0);
    try {
      for (let hasMore = true; hasMore && rows.length < rowsMax; ) {
        const page = await withRetries(() => load(pageSize, rows.length));
        rows.push(...page.rows);
        hasMore = page.hasMore && page.rows.length > 0;
        setCount(rows.length);
        if (hasMore && rows.length >= rowsMax) toast(t('export.cut', { count: whole(rows.length) }));
      }
      download(new Blob([csvOf(columns, rows)], { type: 'text/csv' }), `${name}.csv`);
    } catch (error) {
      toast(failureText(error));
    }
    setCount(null);
  };
  return (
    <button
      type="button"
      className="plain icon"
      aria-label={label}
      title={label}
      disabled={count !== null}
      onClick={() => void save()}
    >
      {count === null ? <Icon name="save" /> : <span className="small">{whole(count)}</span>}
    </button>
  );
}
