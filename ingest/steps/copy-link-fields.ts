/**
 * Columns of the link, copied from the record. Clicks of one link differ in them only if a query names another
 * campaign.
 */
import { type ByteText, stringBytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { CAMPAIGN_FIELDS } from '#common/campaign-fields.ts';
import type { Click } from '#common/log/record.ts';
import type { Step } from './step.ts';

const columns = ['link_id', 'organization_id', 'app_id', ...CAMPAIGN_FIELDS] as const;

interface LinkColumns {
  readonly values: readonly string[];
  readonly encoded: ByteText;
  readonly bytes: number;
  isUsed: boolean;
}

const linksMax = 50_000;
const bytesMax = 32_000_000;
/** Bytes of an entry in addition to its texts. */
const entryBytes = 300;

export function copyLinkFields(): Step<'copy_link_fields'> {
  const known = new BoundedMap<LinkColumns>(linksMax, bytesMax);
  return {
    name: 'copy_link_fields',
    columns,
    reads: columns,
    columnsOf: (click) => {
      let link = known.get(click.link_id);
      if (link === undefined || !isSame(link, click)) {
        link = encode(click);
        known.set(click.link_id, link);
      }
      return link.encoded;
    },
  };
}

function isSame({ values }: LinkColumns, click: Click): boolean {
  for (let at = 0; at < columns.length; at++) if (click[columns[at] ?? 'link_id'] !== values[at]) return false;
  return true;
}

function encode(click: Click): LinkColumns {
  const values = columns.map((name) => click[name]);
  const encoded = values.map(stringBytes).join('');
  return { values, encoded, bytes: entryBytes + 2 * encoded.length, isUsed: false };
}
