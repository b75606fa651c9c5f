import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { RequestTimes } from './request-times.ts';

test('requests are a histogram by route and status, in seconds', async () => {
  const [times, registry] = [new RequestTimes(), new Registry()];
  registry.setDefaultLabels({ process: 'api' });
  times.expose(registry);
  for (const ms of [0, 1, 3, 40, 20_000]) times.observe('GET /links', 200, ms);
  times.observe('GET /links', 404, 2);
  times.observe('GET /links', 0, 7);
  const text = await registry.metrics();
  const value = (line: string) =>
    Number(
      text
        .split('\n')
        .find((one) => one.startsWith(`${line} `))
        ?.split(' ')
        .at(-1),
    );
  const of = (more: string, status = '200') => `route="GET /links",status="${status}"${more},process="api"}`;
  const bucket = (le: string) => value(`signpost_http_request_seconds_bucket{${of(`,le="${le}"`)}`);
  expect(['0.001', '0.002', '0.005', '0.05', '10', '+Inf'].map(bucket)).toEqual([2, 2, 3, 4, 4, 5]);
  expect(value(`signpost_http_request_seconds_count{${of('')}`)).toBe(5);
  expect(value(`signpost_http_request_seconds_sum{${of('')}`)).toBeCloseTo(20.044);
  expect(value(`signpost_http_request_seconds_count{${of('', '404')}`)).toBe(1);
  expect(value(`signpost_http_request_seconds_count{${of('', 'aborted')}`)).toBe(1);
  expect(text).toContain('# TYPE signpost_http_request_seconds histogram');
});
