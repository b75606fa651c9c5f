/** A preview of what a network would get: the template with sample values for its macros. */

/** The macros of the API; those of a click are `query.` followed by the name of the parameter. */
const samples: Readonly<Record<string, string>> = {
  click_id: 'clk_01kzg3v5k2e4z9n7q8w6r5t4y3',
  event_id: 'e1',
  event_name: 'purchase',
  revenue: '12.5',
  currency: 'EUR',
  campaign: 'summer_sale',
  app_id: 'app_01kzg3v5k2e4z9n7q8w6r5t4y4',
  link_id: 'lnk_01kzg3v5k2e4z9n7q8w6r5t4y5',
};

/** The last one stands for any parameter. */
export const macros: readonly string[] = [...Object.keys(samples).map((name) => `{${name}}`), '{query.gclid}'];

export interface Preview {
  readonly text: string;
  /** Braces that are not a macro. */
  readonly unknown: readonly string[];
}

export function previewOf(template: string): Preview {
  const unknown: string[] = [];
  const text = template.replaceAll(/\{([^{}]*)\}/g, (braces, name: string) => {
    if (/^query\.[A-Za-z0-9_.~-]{1,100}$/.test(name)) return 'value';
    const sample = Object.hasOwn(samples, name) ? samples[name] : undefined;
    if (sample !== undefined) return encodeURIComponent(sample);
    unknown.push(braces);
    return braces;
  });
  return { text, unknown };
}
