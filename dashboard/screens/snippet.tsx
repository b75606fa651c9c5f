/** Code that reports an install, in the language of the platform. */
import { useState } from 'react';
import { CopyButton } from '#dashboard/parts/feedback.tsx';
import { sdkSnippets } from '#dashboard/sdk-snippets.ts';
import { t } from '#dashboard/texts/text.ts';

const platforms = ['curl', 'Swift', 'Kotlin', 'React Native', 'Web', 'Node'] as const;
type Platform = (typeof platforms)[number];

function codeOf(platform: Platform, origin: string, key: string): string {
  // A local installation has a certificate that curl does not trust.
  const curl = new URL(origin).hostname === '127.0.0.1' ? 'curl -k' : 'curl';
  if (platform === 'curl')
    return `${curl} ${origin}/v1/sdk/install \\\n  -H 'X-API-Key: ${key}' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"platform":"ios","install_id":"test-1"}'`;
  return sdkSnippets[platform].replace('https://api.example.com', origin).replace('lk_your_key', key);
}

export function Snippet({ apiKey }: { readonly apiKey: string }) {
  const [platform, setPlatform] = useState<Platform>('curl');
  const code = codeOf(platform, location.origin, apiKey || 'lk_…');
  return (
    <>
      <p className="muted">{t('sdk.text')}</p>
      <div className="row wrap">
        {platforms.map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === platform}
            className={one === platform ? '' : 'plain'}
            onClick={() => setPlatform(one)}
          >
            {one}
          </button>
        ))}
        <span className="push">
          <CopyButton text={code} label={t('sdk.copy')} />
        </span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
      <pre tabIndex={0}>{code}</pre>
    </>
  );
}
