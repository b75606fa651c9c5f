/**
 * Previews how other services show a shared link. The image is not loaded, because the dashboard connects only to its
 * own server.
 */
import { useState } from 'react';
import { withScheme } from '#dashboard/link-draft.ts';
import { t } from '#dashboard/texts/text.ts';
import { Icon } from './icons.tsx';

const services = ['X', 'Facebook', 'iMessage', 'WhatsApp'] as const;
type Service = (typeof services)[number];

interface SocialCardsProps {
  readonly title: string;
  readonly text: string;
  readonly image: string;
  readonly host: string;
  readonly destination: string;
}

export function SocialCards(props: SocialCardsProps) {
  const [service, setService] = useState<Service>('X');
  const hasOwn = [props.title, props.text, props.image].some((one) => one.trim() !== '');
  return (
    <div className="stack tight">
      <fieldset className="plain row wrap">
        <legend className="sr">{t('social.title')}</legend>
        {services.map((one) => (
          <button
            key={one}
            type="button"
            className={one === service ? '' : 'plain'}
            aria-pressed={one === service}
            onClick={() => setService(one)}
          >
            {one}
          </button>
        ))}
      </fieldset>
      {hasOwn ? (
        <Card service={service} {...props} />
      ) : (
        <p className="muted small">{t('social.none', { host: hostOf(props.destination) || t('link.destination') })}</p>
      )}
    </div>
  );
}

/** Without a custom title, the page that services read has the host name as its title. */
function Card({ service, title, text, image, host }: SocialCardsProps & { readonly service: Service }) {
  const shownTitle = title.trim() || host;
  const hasImage = image.trim() !== '';
  return (
    <figure className={`social social-${service.toLowerCase()}`} aria-label={t('social.on', { name: service })}>
      {hasImage ? (
        <div className="picture">
          <Icon name="image" />
          <span className="cut">{t('social.image', { host: hostOf(image) })}</span>
          {service === 'X' ? <span className="overlay cut">{shownTitle}</span> : null}
        </div>
      ) : null}
      <figcaption>
        {service === 'Facebook' ? <span className="host">{host}</span> : null}
        {service === 'X' && hasImage ? null : <strong>{shownTitle}</strong>}
        {text.trim() !== '' && !(service === 'X' && hasImage) && service !== 'iMessage' ? <span>{text}</span> : null}
        {service === 'Facebook' ? null : (
          <span className="host">{service === 'X' ? t('social.from', { host }) : host}</span>
        )}
      </figcaption>
    </figure>
  );
}

function hostOf(address: string): string {
  const url = withScheme(address);
  return URL.canParse(url) ? new URL(url).hostname : '';
}
