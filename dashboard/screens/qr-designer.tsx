/** Colors, logo and format of a link's QR code. The last colors are remembered, so that a series looks consistent. */
import { type ChangeEvent, useId, useState } from 'react';
import { download } from '#dashboard/download.ts';
import { bare } from '#dashboard/format.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { failureText, toast } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import {
  brightnessOf,
  contrastOf,
  corrections,
  fitting,
  logoFrom,
  pathOf,
  plainDesign,
  pngOf,
  type QrDesign,
  shapeOf,
  svgText,
} from '#dashboard/qr-code.ts';
import { pdfOf } from '#dashboard/qr-pdf.ts';
import { type TextKey, t } from '#dashboard/texts/text.ts';

/** Below this contrast, many cameras cannot read the code. */
const contrastMin = 4;
const logoBytesMax = 2_000_000;
const pngSizes = ['512', '1024', '2048'] as const;
const storageKey = 'signpost-qr-colors';

interface QrDesignerProps {
  readonly url: string;
  readonly name: string;
  readonly onClose: () => void;
}

export function QrDesigner({ url, name, onClose }: QrDesignerProps) {
  const [design, setDesign] = useState(lastDesign);
  const [pixels, setPixels] = useState<(typeof pngSizes)[number]>('1024');
  const [fault, setFault] = useState<TextKey | ''>('');
  const change = (changes: Partial<QrDesign>) => {
    const next = { ...design, ...changes };
    setDesign(next);
    localStorage.setItem(storageKey, JSON.stringify([next.dark, next.light]));
  };
  const takeLogo = (event: ChangeEvent<HTMLInputElement>) => {
    const [file] = event.currentTarget.files ?? [];
    if (!file) return;
    if (file.size > logoBytesMax) return setFault('qr.logo_large');
    logoFrom(file).then(
      (logo) => {
        setFault('');
        change({ logo });
      },
      () => setFault('qr.logo_unreadable'),
    );
  };
  const save = (make: () => Promise<Blob>, extension: string) => {
    make().then(
      (blob) => download(blob, `${name}.${extension}`),
      (error: unknown) => toast(failureText(error)),
    );
  };
  const fit = fitting(url, design);
  const warning = fit === design ? warningOf(design) : 'qr.long';
  return (
    <Dialog title={t('qr.title')} isDrawer onClose={onClose}>
      <div className="fields">
        <Preview url={url} design={fit} />
        <p className="small muted middle">{bare(url)}</p>
        {warning ? <p className="notice warn small">{t(warning)}</p> : null}
        <div className="pair">
          <ColorField label={t('qr.dark')} value={design.dark} onChange={(dark) => change({ dark })} />
          <ColorField label={t('qr.light')} value={design.light} onChange={(light) => change({ light })} />
        </div>
        <LogoField hasLogo={design.logo !== ''} fault={fault} onFile={takeLogo} onRemove={() => change({ logo: '' })} />
        <div className="pair">
          <Choice
            label={t('qr.correction')}
            value={design.logo === '' ? design.correction : 'H'}
            options={(design.logo === '' ? corrections : (['H'] as const)).map(
              (one) => [one, t(`qr.level_${one}`)] as const,
            )}
            onChange={(correction) => change({ correction })}
          />
          <Choice
            label={t('qr.margin')}
            value={String(design.margin)}
            options={[
              ['4', t('qr.margin_4')],
              ['2', t('qr.margin_2')],
              ['0', t('qr.margin_0')],
            ]}
            onChange={(margin) => change({ margin: Number(margin) })}
          />
        </div>
        <Choice
          label={t('qr.size')}
          value={pixels}
          options={pngSizes.map((one) => [one, `${one} × ${one}`] as const)}
          onChange={setPixels}
        />
      </div>
      <footer>
        <button type="button" onClick={() => save(async () => svgBlob(url, fit), 'svg')}>
          SVG
        </button>
        <button type="button" onClick={() => save(() => pdfOf(url, fit), 'pdf')}>
          PDF
        </button>
        <button type="button" className="primary" onClick={() => save(() => pngOf(url, fit, Number(pixels)), 'png')}>
          PNG
        </button>
      </footer>
    </Dialog>
  );
}

const svgBlob = (url: string, design: QrDesign) => new Blob([svgText(url, design)], { type: 'image/svg+xml' });

function lastDesign(): QrDesign {
  const [dark, light] = storedColors();
  return { ...plainDesign, dark: dark ?? plainDesign.dark, light: light ?? plainDesign.light };
}

function storedColors(): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey) ?? '[]');
    const colors = Array.isArray(stored) ? stored.map(String) : [];
    return colors.every((one) => /^#[0-9a-f]{6}$/i.test(one)) ? colors : [];
  } catch {
    return [];
  }
}

function warningOf({ dark, light, margin }: QrDesign): TextKey | null {
  if (brightnessOf(dark) > brightnessOf(light)) return 'qr.inverted';
  if (contrastOf(dark, light) < contrastMin) return 'qr.pale';
  return margin < 2 ? 'qr.tight' : null;
}

function Preview({ url, design }: { readonly url: string; readonly design: QrDesign }) {
  const shape = shapeOf(url, design);
  const { side, hole } = shape;
  const titleId = useId();
  return (
    <svg
      className="qrpreview"
      role="img"
      aria-labelledby={titleId}
      viewBox={`0 0 ${side} ${side}`}
      shapeRendering="crispEdges"
    >
      <title id={titleId}>{t('link.qr')}</title>
      <rect width={side} height={side} fill={design.light} />
      <path fill={design.dark} d={pathOf(shape)} />
      {hole ? (
        <image x={hole.at + 0.5} y={hole.at + 0.5} width={hole.side - 1} height={hole.side - 1} href={design.logo} />
      ) : null}
    </svg>
  );
}

interface ColorFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function ColorField({ label, value, onChange }: ColorFieldProps) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      <div className="color">
        <input id={id} type="color" value={value} onChange={(event) => onChange(event.currentTarget.value)} />
        <code>{value}</code>
      </div>
    </div>
  );
}

interface LogoFieldProps {
  readonly hasLogo: boolean;
  readonly fault: TextKey | '';
  readonly onFile: (event: ChangeEvent<HTMLInputElement>) => void;
  readonly onRemove: () => void;
}

function LogoField({ hasLogo, fault, onFile, onRemove }: LogoFieldProps) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id}>{t('qr.logo')}</label>
      <div className="row">
        <input
          id={id}
          type="file"
          accept="image/png,image/jpeg,image/svg+xml,image/webp"
          aria-describedby={`${id}-hint`}
          onChange={onFile}
        />
        {hasLogo ? (
          <button type="button" onClick={onRemove}>
            {t('qr.logo_remove')}
          </button>
        ) : null}
      </div>
      {fault ? (
        <p className="fault" role="alert">
          {t(fault)}
        </p>
      ) : null}
      <p className="hint" id={`${id}-hint`}>
        {t('qr.logo_hint')}
      </p>
    </div>
  );
}
