/** How an app reports an install, in the language of its platform. */
import { useState } from 'react';
import { CopyButton } from '#dashboard/parts/feedback.tsx';
import { sdkSnippets } from '#dashboard/sdk-snippets.ts';
import { t } from '#dashboard/texts/text.ts';

const platforms = ['curl', 'Swift', 'Kotlin', 'React Native', 'Web', 'Node'] as const;
type Platform = (typeof platforms)[number];

const bodyOf = (platform: string) => `{"platform":"${platform}","install_id":"…"}`;

function codeOf(platform: Platform, url: string, key: string): string {
  switch (platform) {
    case 'curl':
      return `curl ${url}/sdk/install \\\n  -H 'X-API-Key: ${key}' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"platform":"ios","install_id":"test-1"}'`;
    case 'Swift':
      return `var request = URLRequest(url: URL(string: "${url}/sdk/install")!)\nrequest.httpMethod = "POST"\nrequest.setValue("${key}", forHTTPHeaderField: "X-API-Key")\nrequest.setValue("application/json", forHTTPHeaderField: "Content-Type")\nrequest.httpBody = try JSONEncoder().encode(["platform": "ios", "install_id": installId])\nlet (data, _) = try await URLSession.shared.data(for: request)`;
    case 'Kotlin':
      return `val connection = URL("${url}/sdk/install").openConnection() as HttpURLConnection\nconnection.requestMethod = "POST"\nconnection.setRequestProperty("X-API-Key", "${key}")\nconnection.setRequestProperty("Content-Type", "application/json")\nconnection.doOutput = true\nconnection.outputStream.write("""${bodyOf('android')}""".toByteArray())`;
    case 'React Native':
    case 'Web':
    case 'Node':
      return sdkSnippets[platform]
        .replace('https://api.example.com', url.replace(/\/v1$/, ''))
        .replace('lk_your_key', key);
  }
}

export function Snippet({ apiKey }: { readonly apiKey: string }) {
  const [platform, setPlatform] = useState<Platform>('curl');
  const code = codeOf(platform, `${location.origin}/v1`, apiKey || 'lk_…');
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
