/** The destination of a rule: one URL for everyone, or several URLs that split the visitors. */
import { share } from '#dashboard/format.ts';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { newVariant, type RuleDraft, type VariantDraft } from '#dashboard/rule-draft.ts';
import { variantName } from '#dashboard/rule-words.ts';
import { t } from '#dashboard/texts/text.ts';

/** Same limit as in the API. */
const variantsMax = 10;

interface RuleVariantsProps {
  readonly rule: RuleDraft;
  readonly faults: ReadonlyMap<string, string>;
  readonly onChange: (part: Partial<RuleDraft>) => void;
}

export function RuleVariants({ rule, faults, onChange }: RuleVariantsProps) {
  const { variants } = rule;
  return (
    <>
      <Choice
        label={t('rules.leads')}
        value={variants === null ? 'url' : 'variants'}
        options={[
          ['url', t('rules.one')],
          ['variants', t('rules.split')],
        ]}
        onChange={(kind) =>
          onChange(
            kind === 'url'
              ? { variants: null, url: rule.url || (variants?.[0]?.url ?? '') }
              : { variants: [{ ...newVariant(50), url: rule.url }, newVariant(50)] },
          )
        }
      />
      {variants === null ? (
        <Field
          label={t('rules.destination')}
          value={rule.url}
          onChange={(url) => onChange({ url })}
          fault={faults.get('url')}
          inputMode="url"
          placeholder="https://example.com/sale"
        />
      ) : (
        <Shares variants={variants} faults={faults} onChange={(next) => onChange({ variants: next })} />
      )}
    </>
  );
}

interface SharesProps {
  readonly variants: readonly VariantDraft[];
  readonly faults: ReadonlyMap<string, string>;
  readonly onChange: (variants: readonly VariantDraft[]) => void;
}

function Shares({ variants, faults, onChange }: SharesProps) {
  const rest = 100 - variants.reduce((sum, { percent }) => sum + (Number(percent) || 0), 0);
  const change = (key: number, part: Partial<VariantDraft>) =>
    onChange(variants.map((one) => (one.key === key ? { ...one, ...part } : one)));
  return (
    <>
      {variants.map(({ key, url, percent }, at) => {
        const name = variantName(at);
        return (
          <div key={key} className="variant">
            <Field
              label={t('rules.variant_url', { name })}
              value={url}
              onChange={(next) => change(key, { url: next })}
              fault={faults.get(`variants[${at}].url`)}
              inputMode="url"
              placeholder="https://example.com/sale"
            />
            <Field
              label={t('rules.variant_share', { name })}
              type="number"
              value={percent}
              onChange={(next) => change(key, { percent: next })}
              fault={faults.get(`variants[${at}].percent`)}
            />
            <button
              type="button"
              className="plain icon"
              aria-label={t('rules.variant_remove', { name })}
              title={t('rules.variant_remove', { name })}
              disabled={variants.length === 1}
              onClick={() => onChange(variants.filter((one) => one.key !== key))}
            >
              <Icon name="close" />
            </button>
          </div>
        );
      })}
      {faults.get('variants') ? <p className="fault">{faults.get('variants')}</p> : null}
      <p className={rest < 0 ? 'fault' : 'hint'}>
        {rest < 0
          ? t('rules.too_much', { share: share((100 - rest) / 100) })
          : `${rest > 0 ? t('rules.rest', { share: share(rest / 100) }) : ''} ${t('rules.sticky')}`}
      </p>
      <div>
        <button
          type="button"
          className="small"
          disabled={variants.length >= variantsMax}
          onClick={() => onChange([...variants, newVariant(Math.max(rest, 1))])}
        >
          <Icon name="plus" />
          {t('rules.variant_add')}
        </button>
      </div>
    </>
  );
}
