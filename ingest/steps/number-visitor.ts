/** Column visitor: a number that is the same for the same person, app and UTC day (`visitors.ts`). */
import { BoundedMap } from '#common/bounded-map.ts';
import { visitorAddress } from '#ingest/stored-address.ts';
import { dayOf, type HashedText, type Visitors } from '#ingest/visitors.ts';
import type { Step } from './step.ts';

interface KnownAddress extends HashedText {
  readonly bytes: number;
  isUsed: boolean;
}

const addressesMax = 100_000;
const bytesMax = 64_000_000;
/** Bytes of an entry in addition to its texts. */
const entryBytes = 120;

export function numberVisitor(visitors: Visitors): Step<'number_visitor'> {
  const known = new BoundedMap<KnownAddress>(addressesMax, bytesMax);
  return {
    name: 'number_visitor',
    columns: ['visitor'],
    reads: ['time', 'app_id', 'ip', 'user_agent'],
    columnsOf: ({ time, app_id, ip, user_agent }) => {
      let address = known.get(ip);
      if (address === undefined) {
        address = { text: visitorAddress(ip), words: undefined, bytes: entryBytes + 4 * ip.length, isUsed: false };
        known.set(ip, address);
      }
      return visitors.encoded(dayOf(time), app_id, address, user_agent);
    },
  };
}
