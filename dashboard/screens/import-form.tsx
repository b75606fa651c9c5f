/** Selects a file and how to read it, uploads it in parts, and starts the dry run. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { ApiFailure, type Body, call } from '#dashboard/api.ts';
import { headerOf } from '#dashboard/csv.ts';
import { whole } from '#dashboard/format.ts';
import { listOf } from '#dashboard/list-text.ts';
import { useMe } from '#dashboard/me.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure } from '#dashboard/parts/feedback.tsx';
import { Choice, Field, More } from '#dashboard/parts/fields.tsx';
import { useApps } from '#dashboard/queries.ts';
import { withRetries } from '#dashboard/retries.ts';
import { named, t } from '#dashboard/texts/text.ts';

type Source = Body<'POST /imports'>['source'];

const sources = [
  ...(['firebase', 'branch', 'bitly', 'dub', 'rebrandly', 'shortio', 'tinyurl', 'kutt', 'shlink', 'yourls'] as const),
  'csv',
] as const satisfies readonly Source[];
/** The columns that users can map; the API recognizes the others by their usual names. */
const columnNames = [
  ...['short_url', 'code', 'destination', 'title', 'campaign', 'tags', 'created_at', 'expires_at', 'clicks'],
] as const;
/** The host of a service's links, unless the customer has a custom domain. */
const usualHosts: Readonly<Partial<Record<Source, string>>> = {
  bitly: 'bit.ly',
  dub: 'dub.sh',
  rebrandly: 'rebrand.ly',
  tinyurl: 'tinyurl.com',
};
type ChosenColumns = Readonly<Partial<Record<(typeof columnNames)[number], string>>>;

/** Limits of the API. */
/** Small enough for a slow network, and few enough for the rate limit. */
const partBytesOf = (fileBytes: number) => Math.max(524_288, Math.ceil(fileBytes / 90));
const fileBytesMax = 134_217_728;
const headerBytes = 65_536;

export function ImportForm({ onClose }: { readonly onClose: () => void }) {
  const { organizations } = useMe();
  const writable = new Set(organizations.filter(({ role }) => role !== 'viewer').map(({ id }) => id));
  const apps = (useApps().data?.data ?? []).filter(({ organization_id }) => writable.has(organization_id));
  const [app, setApp] = useState('');
  const [source, setSource] = useState<Source>('csv');
  const [file, setFile] = useState<File | null>(null);
  const [header, setHeader] = useState<readonly string[]>([]);
  const [columns, setColumns] = useState<ChosenColumns>({});
  const [chosenHosts, setHosts] = useState<string | null>(null);
  const hosts = chosenHosts ?? usualHosts[source] ?? '';
  const [upgrades, setUpgrades] = useState(false);
  const [branchKey, setBranchKey] = useState('');
  const chosenApp = app || (apps[0]?.id ?? '');
  const { begin, sent } = useUpload({
    app_id: chosenApp,
    source,
    hosts: listOf(hosts),
    columns: Object.fromEntries(Object.entries(columns).filter(([, column]) => column !== '')),
    upgrade_http: upgrades,
    ...(source === 'branch' && branchKey.trim() !== '' ? { branch_key: branchKey.trim() } : {}),
  });
  const choose = async (chosen: File | undefined) => {
    setFile(chosen ?? null);
    setColumns({});
    setHeader(chosen ? headerOf(await chosen.slice(0, headerBytes).text()) : []);
  };
  const faults = begin.error instanceof ApiFailure ? begin.error.fields : new Map<string, string>();
  const isLarge = (file?.size ?? 0) > fileBytesMax;
  return (
    <Dialog title={t('imports.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          if (file) begin.mutate(file);
        }}
      >
        <div className="fields">
          {begin.isError && !faults.has('hosts[0]') && !faults.has('branch_key') ? (
            <Failure error={begin.error} />
          ) : null}
          <Choice
            label={t('imports.from')}
            value={source}
            options={sources.map((one) => [one, named('imports.source', one)] as const)}
            onChange={setSource}
          />
          {source === 'branch' ? (
            <Field
              label={t('imports.branch_key')}
              value={branchKey}
              onChange={setBranchKey}
              fault={faults.get('branch_key')}
              placeholder="key_live_…"
              hint={t('imports.branch_key_hint')}
            />
          ) : null}
          <label>
            {t('imports.file')}
            <input
              type="file"
              accept=".csv,.txt,text/csv"
              required
              onChange={(event) => void choose(event.currentTarget.files?.[0])}
            />
          </label>
          {isLarge ? <p className="fault">{t('imports.large')}</p> : null}
          <Choice
            label={t('link.app')}
            value={chosenApp}
            options={apps.map(({ id, name }) => [id, name] as const)}
            onChange={setApp}
          />
          {header.length > 0 ? <Columns header={header} columns={columns} onChange={setColumns} /> : null}
          <Field
            label={t('imports.hosts')}
            value={hosts}
            onChange={setHosts}
            fault={faults.get('hosts[0]')}
            placeholder="go.example.com, bit.ly"
            hint={t('imports.hosts_hint')}
          />
          <label className="check">
            <input type="checkbox" checked={upgrades} onChange={(event) => setUpgrades(event.currentTarget.checked)} />
            <span>{t('imports.upgrade')}</span>
          </label>
          {begin.isPending && file ? (
            <p className="row" role="status">
              <progress aria-label={t('imports.uploading')} value={sent} max={file.size} />
              {t('imports.sent', { sent: whole(Math.round(sent / 1024)), total: whole(Math.round(file.size / 1024)) })}
            </p>
          ) : null}
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button
            type="submit"
            className="primary"
            disabled={begin.isPending || file === null || isLarge || chosenApp === ''}
          >
            {t('imports.check')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Creates the import, sends the file in parts, starts the dry run, and opens its page. */
function useUpload(body: Body<'POST /imports'>) {
  const [sent, setSent] = useState(0);
  const client = useQueryClient();
  const [, go] = useLocation();
  const begin = useMutation({
    mutationFn: async (file: File) => {
      const { id } = await call('POST /imports', { body });
      const partBytes = partBytesOf(file.size);
      for (let from = 0, number = 1; from < file.size; from += partBytes, number++) {
        const part = file.slice(from, from + partBytes);
        const params = { import_id: id, number: String(number) };
        await withRetries(() => call('PUT /imports/{import_id}/parts/{number}', { params, file: part }));
        setSent(Math.min(from + partBytes, file.size));
      }
      return call('POST /imports/{import_id}/check', { params: { import_id: id } });
    },
    onSuccess: async ({ id }) => {
      go(`/integrations/imports/${id}`);
      await client.invalidateQueries({ queryKey: ['imports'] });
    },
  });
  return { begin, sent };
}

interface ColumnsProps {
  readonly header: readonly string[];
  readonly columns: ChosenColumns;
  readonly onChange: (columns: ChosenColumns) => void;
}

function Columns({ header, columns, onChange }: ColumnsProps) {
  const names = [...new Set(header)].filter((one) => one !== '');
  return (
    <More title={t('imports.columns')}>
      <p className="hint">{t('imports.columns_hint')}</p>
      {columnNames.map((name) => (
        <Choice
          key={name}
          label={t(`imports.column.${name}`)}
          value={columns[name] ?? ''}
          options={[['', t('imports.automatic')] as const, ...names.map((one) => [one, one] as const)]}
          onChange={(column) => onChange({ ...columns, [name]: column })}
        />
      ))}
    </More>
  );
}
