/** Rows of the table of clicks for tests. */
const defaults = {
  click_id: '',
  organization_id: 'org_1',
  app_id: 'app_1',
  link_id: '',
  time: '2026-03-29T00:00:00.000Z',
  user_agent: 'Mozilla/5.0',
  platform: 'ios',
  campaign: 'spring',
  trigger: 'redirect',
  is_bot: false,
  visitor: 0,
  batch_id: '',
  producer_id: 'redirector-1',
  frame_no: 1,
  idx: 0,
};

export const clickColumns: readonly string[] = Object.keys(defaults);

/** Row `idx` of a batch with its own link; every tenth is a bot, and there are a hundred visitors. */
export function clickRow(batch: string, idx: number, time = defaults.time): unknown[] {
  const row = {
    ...defaults,
    click_id: `clk_${batch}_${idx}`,
    link_id: `lnk_${batch}`,
    time,
    is_bot: idx % 10 === 0,
    visitor: idx % 100,
    batch_id: batch,
    idx,
  };
  return Object.values(row);
}
