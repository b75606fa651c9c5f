/** Loads a list page by page and saves it as a file, showing the number of rows in the meantime. */
import { useState } from 'react';
import { type Column, csvOf, linesOf } from '#dashboard/csv.ts';
import { download } from '#dashboard/download.ts';
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
    /** Of the page before; empty for the first page. */
    cursor: string,
  ) => Promise<{ readonly rows: readonly Row[]; readonly hasMore: boolean; readonly cursor?: string | null }>;
}

const pageSize = 100;

export function CsvButton<Row>({ name, label, columns, rowsMax, load }: CsvButtonProps<Row>) {
  const [count, setCount] = useState<number | null>(null);
  const save = async () => {
    // Browsers may move a Blob to the disk; rows would stay in memory.
    let file = new Blob([csvOf(columns, [])], { type: 'text/csv' });
    let saved = 0;
    let cursor = '';
    setCount(0);
    try {
      for (let hasMore = true; hasMore && saved < rowsMax; ) {
        const page = await withRetries(() => load(pageSize, saved, cursor));
        file = new Blob([file, linesOf(columns, page.rows)], { type: file.type });
        saved += page.rows.length;
        cursor = page.cursor ?? '';
        hasMore = page.hasMore && page.rows.length > 0;
        setCount(saved);
        if (hasMore && saved >= rowsMax) toast(t('export.cut', { count: whole(saved) }));
      }
      download(file, `${name}.csv`);
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
