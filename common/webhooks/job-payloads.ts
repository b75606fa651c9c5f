/** Payloads of imports, audits and the like, as triggers write them (pg-migrations). */
import { Type } from 'typebox';
import { nullable } from '#common/links/link-fields.ts';

const time = Type.String({ format: 'date-time' });

function counts(names: string) {
  return Type.Object(Object.fromEntries(names.split(' ').map((name) => [name, Type.Integer()])));
}

export const importPayload = Type.Object(
  {
    id: Type.String(),
    app_id: Type.String(),
    source: Type.String(),
    state: Type.Unsafe<string>({
      type: 'string',
      enum: ['imported', 'undone', 'failed'],
      description: 'imported: its links were created; undone: they were removed; failed: the file could not be read.',
    }),
    problem: nullable(Type.String({ description: 'Why the file cannot be read.' })),
    rows: counts('new same conflict unsupported'),
    results: counts('created taken removed kept'),
    created_by: Type.String({ description: 'Id of a user or a server key.' }),
    created_at: time,
  },
  { title: 'WebhookImport' },
);

export const importPayloadExample = {
  id: 'imp_01j9z3k4m5n6p7q8r9s0t1v2w3',
  app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
  source: 'bitly',
  state: 'imported',
  problem: null,
  rows: { new: 980, same: 0, conflict: 3, unsupported: 17 },
  results: { created: 980, taken: 0, removed: 0, kept: 0 },
  created_by: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  created_at: '2026-01-15T09:28:00.000Z',
};

const auditFaults = ['lost', 'duplicated', 'rollup_difference'] as const;
type AuditFaultName = (typeof auditFaults)[number];

export const auditPayload = Type.Object(
  {
    hour: Type.String({ format: 'date-time', description: 'Start of the hour that was audited.' }),
    fault: Type.Unsafe<AuditFaultName>({
      type: 'string',
      enum: [...auditFaults],
      description:
        'lost: clicks are missing; duplicated: records are stored twice; rollup_difference: figures differ from the sum of their records.',
    }),
    app_id: nullable(
      Type.String({ description: 'The app whose figures are wrong; null for lost clicks, whose app is unknown.' }),
    ),
    count: nullable(
      Type.Integer({ description: 'Number of affected records or figures of that app; null for lost clicks.' }),
    ),
  },
  { title: 'WebhookAudit' },
);

export const auditPayloadExample = {
  hour: '2026-01-15T08:00:00.000Z',
  fault: 'duplicated',
  app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
  count: 2,
};
