import fc from 'fast-check';
import { expect, test } from 'vitest';
import { inAppBrowser } from '#common/in-app-browser.ts';
import { userAgentCorpus } from '#common/testing/user-agent-corpus.ts';
import { readUserAgent } from '#common/user-agent.ts';
import { readTraces, tracesOf, tracesText } from './click-traces.ts';
import { languagesOf } from './languages.ts';

const agents = ['', 'a\tb\\n', ...userAgentCorpus().map(({ agent }) => agent)];
const headers = [
  ...['', '*', 'de', 'en-US,en;q=0.9', 'DE-de,de;q=0.9,en;q=0.8', 'zh-Hans-CN,zh;q=0.9', 'es-419,es;q=0.5', 'iw-IL'],
  ...['no-NO,nb;q=0.9,nn;q=0.8', 'de,de-AT,de-CH', 'a,b,c,d,e,f,g,h,i,j', 'xx-yy zz', 'fr\t-CA'],
];

test.each(agents)('the traces of a click equal what its user agent reveals: %s', (user_agent) => {
  const facts = readUserAgent(user_agent);
  for (const language of headers) {
    const traces = tracesOf({ user_agent, language });
    const { family, maybeIpad, os_version, os_version_min, device_model } = facts;
    expect(traces).toMatchObject({ family, maybeIpad, os_version, os_version_min, device_model });
    expect(traces.app).toBe(inAppBrowser(user_agent) ?? '');
    const pixels = facts.screen?.map((side) => Math.round(side * 1e3) / 1e3) ?? null;
    expect(traces.screen).toEqual(pixels);
    for (const more of [[], ['fr-FR', 'en-GB'], ['de-DE']]) {
      expect(languagesOf([...traces.languages, ...more])).toEqual(languagesOf([facts.language, language, ...more]));
    }
  }
});

test('any text that is stored with the traces is returned unchanged, and stays on its line', () => {
  const part = fc.oneof(fc.string(), fc.constantFrom('\t', '\n', '\\', '\\n', '\\t', '\\\\', '', 'a=b&c=%20'));
  const texts = fc.array(part, { maxLength: 6 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(texts, fc.constantFrom(...agents), (own, user_agent) => {
      const text = tracesText({ user_agent, language: 'en-US' }, own);
      expect(text).not.toContain('\n');
      expect(readTraces(text)).toEqual({ traces: tracesOf({ user_agent, language: 'en-US' }), own });
    }),
  );
});
