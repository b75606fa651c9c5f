/** Whether a click is traced depends only on its id, so that every process decides in the same way. */
import { expect, test } from 'vitest';
import { utmFrom } from '#common/campaign-fields.ts';
import { newId } from '#common/ids.ts';
import { clickJson } from '#common/log/click-line.ts';
import { encodeFrame, type FrameHeader } from '#common/log/frame.ts';
import { ClickSampling, traceOfClick } from './click-traces.ts';

const ids = Array.from({ length: 4_000 }, (_, n) => newId('clk', 1_790_000_000_000 + n));

const known = new Set(ids);

function lineOf(click_id: string): string {
  const [organization_id, app_id, link_id] = [newId('org', 1), newId('app', 1), newId('lnk', 1)];
  const texts = { ip: '', user_agent: 'x"\\{"v":1,"click_id":"', language: '', referrer: '', query: '' };
  const flags = { is_prefetch: false, is_preview: false, trigger: 'link', rule: '' } as const;
  const ofLink = {
    organization_id,
    app_id,
    link_id,
    privacy_mode: 'no_ip',
    campaign: '',
    ...utmFrom(() => ''),
  } as const;
  return clickJson({ click_id, time: 1, ...ofLink, ...texts, ...flags });
}

function framesOf(lines: readonly string[], kind: FrameHeader['kind'] = 'click'): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at < lines.length; at += 100) {
    const some = lines.slice(at, at + 100);
    const payload = `${some.join('\n')}\n`;
    const into = Buffer.alloc(64 + 3 * payload.length);
    const header = {
      kind,
      partition: 0,
      frame_no: at + 1,
      records: some.length,
      producer_id: 'p'.repeat(26),
      written_at: 1,
    };
    frames.push(into.subarray(0, encodeFrame(into, 0, header, payload)));
  }
  return Buffer.concat(frames);
}

test.each([0, 0.05, 0.3, 1])(
  'of all clicks, a fraction of %d is traced, the same ones by line and by frame',
  (fraction) => {
    const sampling = new ClickSampling(fraction);
    const lines = ids.map(lineOf);
    const byLine = lines.flatMap((line) => sampling.idIn(line) ?? []);
    expect(sampling.idsIn(framesOf(lines), ids.length)).toEqual(byLine);
    expect(byLine.length).toBeGreaterThanOrEqual(ids.length * fraction * 0.4);
    expect(byLine.length).toBeLessThanOrEqual(Math.ceil(ids.length * fraction * 1.6));
    expect(byLine.filter((id) => !known.has(id))).toEqual([]);
  },
);

test('no more than the maximum is taken from frames, and nothing from records of other kinds or damaged frames', () => {
  const all = new ClickSampling(1);
  const frames = framesOf(ids.slice(0, 300).map(lineOf));
  expect(all.idsIn(frames, 256)).toEqual(ids.slice(0, 256));
  expect(all.idsIn(framesOf(ids.slice(0, 10).map(lineOf), 'event'), 256)).toEqual([]);
  expect(all.idsIn(framesOf(['{"v":1}', '', 'x'.repeat(200)]), 256)).toEqual([]);
  expect(all.idsIn(frames.subarray(0, 40), 256)).toEqual([]);
  expect(all.idsIn(Buffer.from('not a frame'.repeat(20)), 256)).toEqual([]);
});

test('the trace of a click is derived from its id, and does not contain it', () => {
  const [id = ''] = ids;
  const trace = traceOfClick(id);
  expect(traceOfClick(id)).toEqual(trace);
  expect(trace.traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(trace.spanId).toMatch(/^[0-9a-f]{16}$/);
  expect(new Set(ids.map((one) => traceOfClick(one).traceId)).size).toBe(ids.length);
});
