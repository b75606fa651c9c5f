/** One redirect rule: where it leads, and the conditions that were added to it. */
import { type ReactNode, useState } from 'react';
import { ownZone } from '#dashboard/address.ts';
import { Checks } from '#dashboard/parts/checks.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { Picks } from '#dashboard/parts/picks.tsx';
import { hasVersions, type RuleDraft } from '#dashboard/rule-draft.ts';
import {
  browserOptions,
  countryOptions,
  languageOptions,
  platformOptions,
  weekdayOptions,
} from '#dashboard/rule-words.ts';
import { t } from '#dashboard/texts/text.ts';
import { RuleVariants } from './rule-variants.tsx';

interface RuleFieldsProps {
  readonly rule: RuleDraft;
  /** Messages of the API, by the field of the rule. */
  readonly faults: ReadonlyMap<string, string>;
  readonly onChange: (rule: RuleDraft) => void;
}

const conditions = ['country', 'device', 'browser', 'language', 'dates', 'week'] as const;
type Condition = (typeof conditions)[number];

/** An empty condition is the same as none. */
const empty: Readonly<Record<Condition, Partial<RuleDraft>>> = {
  country: { country: [] },
  device: { platform: [], osMin: '', osMax: '' },
  browser: { browser: [] },
  language: { language: [] },
  dates: { after: '', before: '' },
  week: { weekdays: [], timeFrom: '', timeUntil: '', timezone: '' },
};

function isUsed(rule: RuleDraft, condition: Condition): boolean {
  return Object.entries(empty[condition]).some(
    ([name, none]) => JSON.stringify(rule[name as keyof RuleDraft]) !== JSON.stringify(none),
  );
}

export function RuleFields({ rule, faults, onChange }: RuleFieldsProps) {
  const [added, setAdded] = useState<readonly Condition[]>([]);
  const shown = conditions.filter((one) => added.includes(one) || isUsed(rule, one));
  const change = (part: Partial<RuleDraft>) => onChange({ ...rule, ...part });
  const fields = { rule, faults, onChange: change };
  return (
    <>
      <RuleVariants {...fields} />
      {shown.map((condition) => (
        <div key={condition} className="row top">
          <div className="grow">
            <ConditionFields condition={condition} {...fields} />
          </div>
          <button
            type="button"
            className="plain icon"
            aria-label={t('rules.remove_condition', { name: t(`rules.${condition}`) })}
            title={t('rules.remove_condition', { name: t(`rules.${condition}`) })}
            onClick={() => {
              setAdded(added.filter((one) => one !== condition));
              change(empty[condition]);
            }}
          >
            <Icon name="close" />
          </button>
        </div>
      ))}
      {shown.length < conditions.length ? (
        <fieldset className="plain">
          <legend className="label">{t('rules.conditions')}</legend>
          <div className="row wrap">
            {conditions
              .filter((one) => !shown.includes(one))
              .map((condition) => (
                <button
                  key={condition}
                  type="button"
                  className="small"
                  onClick={() => {
                    setAdded([...added, condition]);
                    if (condition === 'week') change({ timezone: ownZone });
                  }}
                >
                  <Icon name="plus" />
                  {t(`rules.${condition}`)}
                </button>
              ))}
          </div>
        </fieldset>
      ) : null}
    </>
  );
}

interface ConditionProps extends Omit<RuleFieldsProps, 'onChange'> {
  readonly onChange: (part: Partial<RuleDraft>) => void;
}

/** The message about a field, or about one of its values. */
const faultAt = (faults: ReadonlyMap<string, string>, name: string) =>
  [...faults].find(([field]) => field === name || field.startsWith(`${name}[`))?.[1];

function ConditionFields({ condition, ...fields }: ConditionProps & { readonly condition: Condition }): ReactNode {
  const { rule, faults, onChange } = fields;
  switch (condition) {
    case 'country':
      return (
        <Picks
          label={t('rules.country')}
          chosen={rule.country}
          options={countryOptions()}
          onChange={(country) => onChange({ country })}
          fault={faultAt(faults, 'country')}
          placeholder={t('rules.country_example')}
        />
      );
    case 'browser':
      return (
        <Picks
          label={t('rules.browser')}
          chosen={rule.browser}
          options={browserOptions()}
          onChange={(browser) => onChange({ browser })}
          fault={faultAt(faults, 'browser')}
          hint={t('rules.browser_hint')}
          placeholder="Safari"
          isFree
        />
      );
    case 'language':
      return (
        <Picks
          label={t('rules.language')}
          chosen={rule.language}
          options={languageOptions()}
          onChange={(language) => onChange({ language })}
          fault={faultAt(faults, 'language')}
          hint={t('rules.language_hint')}
          placeholder={t('rules.language_example')}
          isFree
        />
      );
    case 'device':
      return <DeviceFields {...fields} />;
    case 'dates':
      return <DateFields {...fields} />;
    case 'week':
      return <WeekFields {...fields} />;
  }
}

function DeviceFields({ rule, faults, onChange }: ConditionProps) {
  return (
    <>
      <Checks
        legend={t('rules.device')}
        options={platformOptions()}
        chosen={rule.platform}
        onChange={(platform) => onChange({ platform })}
        fault={faultAt(faults, 'platform')}
        isRow
      />
      {hasVersions(rule) ? (
        <>
          <div className="pair">
            <Field
              label={t('rules.os_min')}
              value={rule.osMin}
              onChange={(osMin) => onChange({ osMin })}
              fault={faults.get('os_version_min')}
              placeholder="17.4"
              inputMode="decimal"
            />
            <Field
              label={t('rules.os_max')}
              value={rule.osMax}
              onChange={(osMax) => onChange({ osMax })}
              fault={faults.get('os_version_max')}
              placeholder="18"
              inputMode="decimal"
            />
          </div>
          <p className="hint">{t('rules.os_hint')}</p>
        </>
      ) : (
        <p className="hint">{t('rules.os_needs')}</p>
      )}
    </>
  );
}

function DateFields({ rule, faults, onChange }: ConditionProps) {
  return (
    <div className="pair">
      <Field
        label={t('rules.after')}
        type="datetime-local"
        value={rule.after}
        onChange={(after) => onChange({ after })}
        fault={faults.get('after')}
      />
      <Field
        label={t('rules.before')}
        type="datetime-local"
        value={rule.before}
        onChange={(before) => onChange({ before })}
        fault={faults.get('before')}
      />
    </div>
  );
}

function WeekFields({ rule, faults, onChange }: ConditionProps) {
  const zones = [...new Set([rule.timezone, ownZone, 'UTC', ...Intl.supportedValuesOf('timeZone')])];
  return (
    <>
      <Checks
        legend={t('rules.week')}
        options={weekdayOptions()}
        chosen={rule.weekdays}
        onChange={(weekdays) => onChange({ weekdays })}
        fault={faultAt(faults, 'weekdays')}
        isRow
      />
      <div className="pair">
        <Field
          label={t('rules.time_from')}
          type="time"
          value={rule.timeFrom}
          onChange={(timeFrom) => onChange({ timeFrom })}
          fault={faults.get('time_from')}
        />
        <Field
          label={t('rules.time_until')}
          type="time"
          value={rule.timeUntil}
          onChange={(timeUntil) => onChange({ timeUntil })}
          fault={faults.get('time_until')}
        />
      </div>
      <p className="hint">{t('rules.time_hint')}</p>
      <Choice
        label={t('zone.label')}
        value={rule.timezone}
        options={zones.map((zone) => [zone, zone.replaceAll('_', ' ')] as const)}
        onChange={(timezone) => onChange({ timezone })}
      />
      {faults.get('timezone') ? <p className="fault">{faults.get('timezone')}</p> : null}
    </>
  );
}
