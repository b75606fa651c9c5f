/** The template field of a postback: macros can be inserted, and a preview shows what the network would get. */
import { useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import { Area } from '#dashboard/parts/area.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { macros, previewOf } from '#dashboard/postback-preview.ts';
import { t } from '#dashboard/texts/text.ts';

type Method = 'GET' | 'POST';
interface Template {
  readonly url: string;
  readonly method: Method;
  readonly body: string;
}

interface PostbackTemplateProps {
  readonly draft: Template;
  readonly onChange: (part: Partial<Template>) => void;
  readonly faultOf: (name: string) => string | undefined;
}

export function PostbackTemplate({ draft, onChange, faultOf }: PostbackTemplateProps) {
  const [edited, setEdited] = useState<'url' | 'body'>('url');
  const areas = { url: useRef<HTMLTextAreaElement>(null), body: useRef<HTMLTextAreaElement>(null) };
  const target = edited === 'body' && draft.method === 'POST' ? 'body' : 'url';
  const insert = (macro: string) => {
    const area = areas[target].current;
    const at = area?.selectionEnd ?? draft[target].length;
    // The cursor moves once the field has its new value, and before anything else is typed.
    flushSync(() => onChange({ [target]: draft[target].slice(0, at) + macro + draft[target].slice(at) }));
    area?.focus();
    area?.setSelectionRange(at + macro.length, at + macro.length);
  };
  const preview = previewOf(draft.url.trim());
  const bodyPreview = previewOf(draft.method === 'POST' ? draft.body.trim() : '');
  const unknown = [...preview.unknown, ...bodyPreview.unknown];
  return (
    <>
      <Area
        label={t('posts.template')}
        area={areas.url}
        value={draft.url}
        // A URL has no spaces; a copied one may have line breaks.
        onChange={(url) => onChange({ url: url.replaceAll(/\s+/g, '') })}
        onFocus={() => setEdited('url')}
        fault={faultOf('url')}
        hint={t('posts.template_hint')}
        placeholder="https://network.example/postback?click={query.gclid}&value={revenue}"
        rows={3}
        isCode
        hasFocus
      />
      <fieldset className="plain">
        <legend className="label">{t('posts.macros')}</legend>
        <div className="row wrap">
          {macros.map((macro) => (
            <button key={macro} type="button" className="small mono" onClick={() => insert(macro)}>
              {macro}
            </button>
          ))}
        </div>
        <p className="hint">{t('posts.macros_hint')}</p>
      </fieldset>
      <Choice
        label={t('posts.method')}
        value={draft.method}
        options={[
          ['GET', 'GET'],
          ['POST', 'POST'],
        ]}
        onChange={(method) => onChange({ method })}
      />
      {draft.method === 'POST' ? (
        <Area
          label={t('posts.body')}
          area={areas.body}
          value={draft.body}
          onChange={(body) => onChange({ body })}
          onFocus={() => setEdited('body')}
          fault={faultOf('body')}
          hint={t('posts.body_hint')}
          placeholder="click={click_id}&event={event_name}"
          rows={3}
          isCode
        />
      ) : null}
      {preview.text === '' ? null : (
        <div role="status">
          <p className="label">{t('posts.preview')}</p>
          <pre className="answer">{`${draft.method} ${preview.text}${bodyPreview.text ? `\n\n${bodyPreview.text}` : ''}`}</pre>
          {unknown.length > 0 ? (
            <p className="fault">{t('posts.unknown', { names: [...new Set(unknown)].join(', ') })}</p>
          ) : null}
        </div>
      )}
    </>
  );
}
