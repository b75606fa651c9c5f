/**
 * max_clicks of an imported link. The other service has counted the first clicks; the remaining ones become the maximum
 * here.
 */
import { type CellOf, fault, type RowFault } from './import-row.ts';
import { countOf, isYes } from './import-values.ts';

/** Values of this column for a link without a maximum. */
const unlimited = /^(?:unlimited|infinite|never|-1|∞)$/i;

/** How many clicks are left; null without a maximum. */
export function clicksLeft(cell: CellOf): number | null | RowFault {
  const text = cell('max_clicks');
  if (isYes(text) === false || unlimited.test(text)) return null;
  const max = countOf(text);
  if (max === null) return fault('max_clicks', 'max_clicks', 'must be a whole number of clicks');
  if (max === 0) return null;
  const clicks = countOf(cell('clicks'));
  if (clicks === null)
    return fault(
      'max_clicks',
      'max_clicks',
      'the file does not say how many of these clicks were used: add a clicks column',
    );
  return Math.max(max - clicks, 0);
}
