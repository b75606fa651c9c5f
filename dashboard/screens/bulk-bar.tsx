/** Actions for the selected links, and their progress. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '#dashboard/api.ts';
import {
  type BulkChange,
  type BulkResult,
  changeMany,
  changeMatching,
  type LinkFilter,
  matchingMax,
} from '#dashboard/bulk.ts';
import { whole } from '#dashboard/format.ts';
import { listOf, listText } from '#dashboard/list-text.ts';
import { Confirm, Dialog } from '#dashboard/parts/dialog.tsx';
import { failureText } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { type TextKey, t } from '#dashboard/texts/text.ts';

interface BulkBarProps {
  readonly ids: readonly string[];
  /** Total number of links that match the filters. */
  readonly total: number;
  readonly filter: LinkFilter;
  readonly areArchived: boolean;
  readonly onChoose: (ids: readonly string[]) => void;
}

interface Work {
  readonly count: number;
  readonly total: number;
}

const tagsShown = 12;

export function BulkBar({ ids, total, filter, areArchived, onChoose }: BulkBarProps) {
  const client = useQueryClient();
  /** The filter whose links are all selected; another filter is another selection. */
  const [allOf, setAllOf] = useState('');
  const list = JSON.stringify(filter);
  const [asks, setAsks] = useState<'' | 'archive' | 'delete' | 'add_tags' | 'remove_tags'>('');
  const [work, setWork] = useState<Work | null>(null);
  const [result, setResult] = useState<BulkResult | null>(null);
  const takesAll = allOf === list;
  const count = takesAll ? total : ids.length;
  const run = async (change: BulkChange) => {
    setAsks('');
    setResult(null);
    setWork({ count: 0, total: count });
    const found = takesAll
      ? await changeMatching(filter, change)
      : await changeMany(ids, change, (done) => setWork({ count: done, total: count }));
    await client.invalidateQueries({ queryKey: ['links'] });
    setWork(null);
    setResult(found);
    setAllOf('');
    // Links that could not be changed stay selected, so that the change can be retried.
    onChoose([...found.refused.keys(), ...found.left]);
  };
  if (work) return <Progress work={work} isOneStep={takesAll} />;
  if (count === 0) return result ? <Result result={result} onClose={() => setResult(null)} /> : null;
  const canTakeAll = !takesAll && total > ids.length && total <= matchingMax;
  return (
    <>
      {result ? <Result result={result} onClose={() => setResult(null)} /> : null}
      <section className="bulk" aria-label={t('bulk.title')}>
        <span className="strong">{t('bulk.chosen', { count: whole(count) })}</span>
        {canTakeAll ? (
          <button type="button" className="plain" onClick={() => setAllOf(list)}>
            {t('bulk.choose_all', { count: whole(total) })}
          </button>
        ) : null}
        <button
          type="button"
          className="plain"
          onClick={() => {
            setAllOf('');
            onChoose([]);
          }}
        >
          {t('bulk.clear')}
        </button>
        <span className="row wrap push">
          <button type="button" onClick={() => (areArchived ? void run({ archived: false }) : setAsks('archive'))}>
            {t(areArchived ? 'link.restore' : 'link.archive')}
          </button>
          <button type="button" onClick={() => setAsks('add_tags')}>
            {t('bulk.add_tags')}
          </button>
          <button type="button" onClick={() => setAsks('remove_tags')}>
            {t('bulk.remove_tags')}
          </button>
          <button type="button" className="danger" onClick={() => setAsks('delete')}>
            {t('delete')}
          </button>
        </span>
      </section>
      {asks === 'archive' ? (
        <Confirm
          title={t('bulk.archive_title', { count: whole(count) })}
          text={t('link.archive_text')}
          action={t('link.archive')}
          isBusy={false}
          onConfirm={() => void run({ archived: true })}
          onClose={() => setAsks('')}
        />
      ) : null}
      {asks === 'delete' ? (
        <Confirm
          title={t('bulk.delete_title', { count: whole(count) })}
          text={t('link.delete_text')}
          action={t('delete')}
          isBusy={false}
          onConfirm={() => void run(null)}
          onClose={() => setAsks('')}
        />
      ) : null}
      {asks === 'add_tags' || asks === 'remove_tags' ? (
        <TagDialog
          title={`bulk.${asks}`}
          count={count}
          onClose={() => setAsks('')}
          onDone={(tags) => void run({ [asks]: tags })}
        />
      ) : null}
    </>
  );
}

function Progress({ work, isOneStep }: { readonly work: Work; readonly isOneStep: boolean }) {
  const text = t('bulk.progress', { count: whole(work.count), total: whole(work.total) });
  return (
    <div className="bulk" role="status">
      <span className="strong">{isOneStep ? t('bulk.working', { total: whole(work.total) }) : text}</span>
      <progress
        className="push"
        aria-label={t('bulk.title')}
        {...(isOneStep ? {} : { value: work.count, max: work.total })}
      />
    </div>
  );
}

function Result({ result, onClose }: { readonly result: BulkResult; readonly onClose: () => void }) {
  const { done, refused, left, fault } = result;
  const isWhole = refused.size === 0 && left.length === 0 && !fault;
  const [reason] = refused.values();
  return (
    <div className={`notice ${isWhole ? '' : 'warn'}`} role="status">
      <span>{t('bulk.done', { count: whole(done) })}</span>
      {refused.size > 0 ? <span>{t('bulk.refused', { count: whole(refused.size), reason: reason ?? '' })}</span> : null}
      {fault ? <span>{failureText(fault)}</span> : null}
      <button type="button" className="plain push" onClick={onClose}>
        {t('close')}
      </button>
    </div>
  );
}

interface TagDialogProps {
  readonly title: TextKey;
  readonly count: number;
  readonly onClose: () => void;
  readonly onDone: (tags: string[]) => void;
}

function TagDialog({ title, count, onClose, onDone }: TagDialogProps) {
  const [text, setText] = useState('');
  const known = useQuery({
    queryKey: ['tags'],
    queryFn: () => call('GET /tags', { query: { limit: tagsShown } }),
  });
  const tags = listOf(text);
  return (
    <Dialog title={t(title)} onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          onDone(tags);
        }}
      >
        <div className="fields">
          <Field
            label={t('link.tags')}
            value={text}
            onChange={setText}
            hint={t('link.tags_hint')}
            isRequired
            hasFocus
          />
          <span className="row wrap">
            {(known.data?.data ?? [])
              .filter(({ tag }) => !tags.includes(tag))
              .map(({ tag }) => (
                <button
                  key={tag}
                  type="button"
                  className="tag plain cut"
                  onClick={() => setText(listText([...tags, tag]))}
                >
                  {tag}
                </button>
              ))}
          </span>
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={tags.length === 0}>
            {t('bulk.change', { count: whole(count) })}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
