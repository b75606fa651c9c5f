/** Columns of the link, as they are in the record. Clicks of one link differ in them only when a query names another campaign. */
import { type ByteText, stringBytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import type { Click } from '#common/log/record.ts';
import type { Step } from './step.ts';

const columns = [
  'link_id',
  'organization_id',
  'app_id',
  'campaign',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_term',
  'utm_content',
] as const;

interface LinkColumns extends Pick<Click, (typeof columns)[number]> {
  readonly encoded: ByteText;
  readonly bytes: number;
  isUsed: boolean;
}

const linksMax = 50_000;
const bytesMax = 32_000_000;
/** Bytes of an entry beside its texts. */
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

function isSame(link: LinkColumns, click: Click): boolean {
  return (
    link.app_id === click.app_id &&
    link.organization_id === click.organization_id &&
    link.campaign === click.campaign &&
    link.utm_source === click.utm_source &&
    link.utm_medium === click.utm_medium &&
    link.utm_campaign === click.utm_campaign &&
    link.utm_term === click.utm_term &&
    link.utm_content === click.utm_content
  );
}

function encode(click: Click): LinkColumns {
  const { link_id, organization_id, app_id, campaign } = click;
  const { utm_source, utm_medium, utm_campaign, utm_term, utm_content } = click;
  const encoded = columns.map((name) => stringBytes(click[name])).join('');
  const own = { link_id, organization_id, app_id, campaign };
  const utm = { utm_source, utm_medium, utm_campaign, utm_term, utm_content };
  return { ...own, ...utm, encoded, bytes: entryBytes + 2 * encoded.length, isUsed: false };
}
