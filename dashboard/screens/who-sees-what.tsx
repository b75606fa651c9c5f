/** Where a link leads five kinds of devices, as the redirector itself decides it. Nothing is counted. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, call } from '#dashboard/api.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { t } from '#dashboard/texts/text.ts';

type Explanation = Answer<'POST /links/{id}/explain'>;

const safari = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1';
const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0';
const devices = [
  ['iphone', `Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) ${safari}`],
  ['android', `Mozilla/5.0 (Linux; Android 15; Pixel 9) ${chrome} Mobile Safari/537.36`],
  ['ipad', `Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) ${safari}`],
  ['desktop', `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Safari/537.36`],
  ['preview', 'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)'],
] as const;
type Device = (typeof devices)[number][0];

export function WhoSeesWhat({ link }: { readonly link: Link }) {
  const [isInstalled, setInstalled] = useState(false);
  const found = useQuery({
    queryKey: ['explain', link.id, link.updated_at, isInstalled],
    queryFn: () => explained(link.id, isInstalled),
  });
  return (
    <section className="card">
      <header>
        <h2>{t('explain.title')}</h2>
        <label className="check push">
          <input
            type="checkbox"
            checked={isInstalled}
            onChange={(event) => setInstalled(event.currentTarget.checked)}
          />
          <span>{t('explain.installed')}</span>
        </label>
      </header>
      {found.isError && !found.data ? (
        <div className="inside">
          <Failure error={found.error} retry={() => void found.refetch()} />
        </div>
      ) : null}
      {found.isPending ? <Loading lines={5} /> : null}
      {found.data ? (
        <ScrollArea label={t('explain.title')}>
          <table>
            <tbody>
              {found.data.map(([device, one]) => (
                <tr key={device}>
                  <th className="nowrap">{t(`explain.${device}`)}</th>
                  <td>
                    <Way way={one} opensApp={isInstalled && one.association.opens_app} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollArea>
      ) : null}
    </section>
  );
}

function explained(id: string, installed: boolean): Promise<(readonly [Device, Explanation])[]> {
  return Promise.all(
    devices.map(async ([device, user_agent]) => {
      const body = { user_agent, installed };
      return [device, await call('POST /links/{id}/explain', { params: { id }, body })] as const;
    }),
  );
}

/** The API's sentences say why; they are in English, as its other messages are. */
function Way({ way, opensApp }: { readonly way: Explanation; readonly opensApp: boolean }) {
  const { status, location, sentences } = way;
  return (
    <details>
      <summary className="row">
        <span className={`tag ${opensApp || status < 400 ? 'good' : 'warn'}`}>
          {opensApp ? t('explain.app') : status}
        </span>
        <span className="cut">{opensApp ? t('explain.opens_app') : (location ?? t('explain.page'))}</span>
      </summary>
      <ul className="sentences muted small">
        {sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </details>
  );
}
