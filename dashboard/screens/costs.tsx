/** Costs of campaigns by day, to compare with their revenue. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import type { Column } from '#dashboard/csv.ts';
import { date, money } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, failureText, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { IntegrationList, useListPart } from '#dashboard/parts/integration-list.tsx';
import { ListCsv } from '#dashboard/parts/list-csv.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { t } from '#dashboard/texts/text.ts';

type Cost = Answer<'GET /costs'>['data'][number];

const columns: readonly Column<Cost>[] = [
  ['day', (cost) => cost.day],
  ['campaign', (cost) => cost.campaign],
  ['amount', (cost) => cost.amount],
  ['currency', (cost) => cost.currency],
  ['organization_id', (cost) => cost.organization_id],
];

export function Costs() {
  const query = useListPart();
  const costs = useQuery({ queryKey: ['costs', query], queryFn: () => call('GET /costs', { query }) });
  return (
    <IntegrationList
      create={t('costs.new')}
      csv={
        <ListCsv
          name="costs"
          title={t('costs.title')}
          columns={columns}
          load={(page) => call('GET /costs', { query: page })}
        />
      }
      about={t('costs.text')}
      empty={{ title: t('costs.none'), text: t('costs.none_text') }}
      found={costs}
      table={(rows) => <CostTable rows={rows} />}
      form={(close) => <NewCost onClose={close} />}
    />
  );
}

/** The API removes a cost that is set to 0. */
function useStore(onStored: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ organization_id, ...cost }: Cost) =>
      call('POST /costs', { body: { organization_id, costs: [cost] } }),
    onSuccess: async () => {
      onStored();
      await client.invalidateQueries({ queryKey: ['costs'] });
    },
  });
}

function CostTable({ rows }: { readonly rows: readonly Cost[] }) {
  const { organizations } = useMe();
  const writable = new Set(organizations.filter(({ role }) => role !== 'viewer').map(({ id }) => id));
  const remove = useStore(() => toast(t('costs.removed')));
  return (
    <ScrollArea label={t('costs.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('costs.day')}</th>
            <th>{t('link.campaign')}</th>
            <th className="num">{t('costs.amount')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((cost) => (
            <tr key={[cost.organization_id, cost.day, cost.campaign, cost.currency].join(' ')}>
              <td className="nowrap">{date(`${cost.day}T00:00:00Z`, 'UTC')}</td>
              <td>{cost.campaign}</td>
              <td className="num">{money(cost.amount, cost.currency)}</td>
              <td className="num">
                {writable.has(cost.organization_id) ? (
                  <button
                    type="button"
                    className="plain icon"
                    aria-label={t('costs.remove', { campaign: cost.campaign, day: cost.day })}
                    disabled={remove.isPending}
                    onClick={() =>
                      remove.mutate({ ...cost, amount: '0' }, { onError: (error) => toast(failureText(error)) })
                    }
                  >
                    <Icon name="close" />
                  </button>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}

function NewCost({ onClose }: { readonly onClose: () => void }) {
  const { organizations } = useMe();
  const writable = organizations.filter(({ role }) => role !== 'viewer');
  const [cost, setCost] = useState<Cost>({
    organization_id: writable[0]?.id ?? '',
    campaign: '',
    day: new Date().toISOString().slice(0, 10),
    amount: '',
    currency: 'EUR',
  });
  const save = useStore(() => {
    toast(t('saved'));
    onClose();
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const field = (name: 'campaign' | 'day' | 'amount' | 'currency') => ({
    value: cost[name],
    onChange: (value: string) => setCost({ ...cost, [name]: value }),
    fault: faults.get(`costs[0].${name}`),
    isRequired: true,
  });
  return (
    <Dialog title={t('costs.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate({ ...cost, currency: cost.currency.trim().toUpperCase(), amount: cost.amount.trim() });
        }}
      >
        <div className="fields">
          {save.isError && faults.size === 0 ? <Failure error={save.error} /> : null}
          {writable.length > 1 ? (
            <Choice
              label={t('app.organization')}
              value={cost.organization_id}
              options={writable.map(({ id, name }) => [id, name] as const)}
              onChange={(organization_id) => setCost({ ...cost, organization_id })}
            />
          ) : null}
          <Field label={t('link.campaign')} {...field('campaign')} hint={t('costs.campaign_hint')} hasFocus />
          <Field label={t('costs.day')} {...field('day')} type="date" />
          <div className="pair">
            <Field label={t('costs.amount')} {...field('amount')} placeholder="120.50" />
            <Field label={t('ltv.currency')} {...field('currency')} placeholder="EUR" />
          </div>
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending}>
            {t('save')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
