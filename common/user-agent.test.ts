import { expect, test } from 'vitest';
import { familyOf } from './device-family.ts';
import { type CorpusLine, userAgentCorpus } from './testing/user-agent-corpus.ts';
import { readUserAgent, versionOf } from './user-agent.ts';

const corpus = userAgentCorpus();

test('the corpus has the major in-app browsers on both systems, and no line twice', () => {
  expect(corpus.length).toBeGreaterThan(80);
  expect(new Set(corpus.map(({ agent }) => agent)).size).toBe(corpus.length);
  for (const app of ['Facebook', 'Instagram', 'TikTok', 'LinkedIn', 'X', 'WeChat', 'Line', 'Google']) {
    const families = corpus.filter((line) => line.app === app).map(({ family }) => family);
    expect(new Set(families), app).toEqual(new Set(['ios', 'android']));
  }
});

test.each(corpus.map((line): [string, CorpusLine] => [`${line.seen} ${line.what}`, line]))(
  'a user agent of the corpus is parsed as expected: %s',
  (_, { family, readSystem, readModel, app, agent }) => {
    const facts = readUserAgent(agent);
    const min = facts.os_version_min.join('.');
    expect({
      family: facts.family,
      system: facts.os_version.join('.') || (min && `${min}+`),
      model: facts.device_model,
      app: facts.app,
    }).toEqual({ family, system: readSystem, model: readModel, app });
    expect(familyOf(agent)).toBe(family);
  },
);

test('the result never contradicts the truth: the version is a prefix of it or a lower bound, the model is it', () => {
  for (const { what, system, model, agent } of corpus) {
    const { os_version, os_version_min, device_model } = readUserAgent(agent);
    const truth = versionOf(system);
    if (truth.length > 0) {
      const length = Math.min(truth.length, os_version.length);
      expect(os_version.slice(0, length), what).toEqual(truth.slice(0, length));
      const isOlder =
        (truth[0] ?? 0) * 100 + (truth[1] ?? 99) < (os_version_min[0] ?? 0) * 100 + (os_version_min[1] ?? 0);
      expect(isOlder, what).toBe(false);
    }
    if (model !== '' && device_model !== '') expect(device_model, what).toBe(model);
  }
});

test.each<[string, string, [number, number] | null]>([
  ['iPhone12,1; iOS 26_3; pt_BR; pt; scale=2.00; 828x1792; IABMV/1; 904620799', 'pt_BR', [414, 896]],
  ['iPhone7,2; iOS 11_3_1; es_ES; es-ES; scale=2.00; gamut=normal; 750x1334', 'es_ES', [375, 667]],
  ['iPhone17,5; iOS 26_6; de_DE; de; IABMV/1', 'de_DE', null],
])('the language and screen that Instagram on iOS adds are read, in their order: %s', (added, language, screen) => {
  const agent = `Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/23D127 Instagram 420.0 (${added}) Safari/604.1`;
  expect(readUserAgent(agent)).toMatchObject({ language, screen });
});

test('the language that other apps add is read', () => {
  const languages = ['Facebook, iOS 26.2', 'WeChat, iOS 26', 'TikTok, Android 9', 'Instagram, Android 14'].map(
    (what) => readUserAgent(corpus.find((line) => line.what === what)?.agent ?? '').language,
  );
  expect(languages).toEqual(['vi_VN', 'zh_CN', 'de', 'de_DE']);
});
