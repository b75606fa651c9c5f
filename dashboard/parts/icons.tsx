/** Icons of 16 px, drawn with the color of the text. */
const shapes = {
  overview: 'M2 13V9m4 4V4m4 9V7m4 6V2',
  links:
    'M6.5 9.5a3 3 0 0 0 4.3 0l2.3-2.3a3 3 0 0 0-4.3-4.3L7.7 4M9.5 6.5a3 3 0 0 0-4.3 0L2.9 8.8a3 3 0 0 0 4.3 4.3L8.3 12',
  apps: 'M5 1.5h6a1 1 0 0 1 1 1v11a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-11a1 1 0 0 1 1-1ZM7 12.2h2',
  debugger: 'M7 12.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11Zm4-1.5 3.5 3.5',
  members:
    'M6 7.5a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM1.5 14c0-2.6 2-4.3 4.5-4.3s4.5 1.7 4.5 4.3M11 2.3a2.7 2.7 0 0 1 0 5M12.2 9.9c1.4.6 2.3 2 2.3 4.1',
  quality: 'M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z',
  trust:
    'M8 1.5 2.5 3.7v4c0 3.300 2.300 5.800 5.500 6.800 3.200-1 5.500-3.500 5.500-6.800v-4L8 1.500Zm-2.500 6.300L7.300 9.600l3.300-3.500',
  retention: 'M2 3h12M2 6.500h9M2 10h6M2 13.500h3',
  integrations: 'M6 1.500v3.500M10 1.500v3.500M4 5h8v2.500a4 4 0 0 1-8 0ZM8 11.500v3',
  again: 'M13.500 8a5.500 5.500 0 1 1-1.600-3.900L13.500 5.700M13.500 2v3.700H9.800',
  plus: 'M8 3v10M3 8h10',
  close: 'm4 4 8 8m0-8-8 8',
  copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3',
  check: 'm3 8.500 3.300 3.300L13 4.700',
  back: 'M9.500 3 4.500 8l5 5',
  forward: 'm6.500 3 5 5-5 5',
  up: 'm3 9.500 5-5 5 5',
  down: 'm3 6.500 5 5 5-5',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-10v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1.100 1.100M11.900 11.900 13 13M13 3l-1.100 1.100M4.100 11.900 3 13',
  save: 'M8 2.500v7.500M5 7.200l3 3 3-3M3 13h10',
  image: 'M2.500 2.500h11v11h-11zM2.500 11l3.200-3.200 2.600 2.600 2-2 3.200 3.100M10.300 5.700h.01',
  person: 'M8 7.800a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.500 14.200c0-2.700 2.400-4.500 5.500-4.500s5.500 1.800 5.500 4.500',
  leave: 'M6 2H3v12h3M10.500 5l3 3-3 3M13.500 8H6',
} as const;

export type IconName = keyof typeof shapes;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={shapes[name]} />
    </svg>
  );
}

export function Brand() {
  return (
    <span className="brand">
      <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="currentColor" />
        <path
          d="M9 10h11l4 4-4 4H9zM15 18v7"
          fill="none"
          stroke="var(--page)"
          strokeWidth="2.600"
          strokeLinejoin="round"
          strokeLinecap="round"
        />
      </svg>
      Signpost
    </span>
  );
}
