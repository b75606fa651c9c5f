/** Light or dark: the system's setting unless the user has chosen. */
const key = 'signpost-theme';
const root = document.documentElement;

export function applyTheme(): void {
  const chosen = localStorage.getItem(key);
  if (chosen === 'light' || chosen === 'dark') root.dataset['theme'] = chosen;
}

export function switchTheme(): void {
  const isDark = root.dataset['theme']
    ? root.dataset['theme'] === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  const next = isDark ? 'light' : 'dark';
  root.dataset['theme'] = next;
  localStorage.setItem(key, next);
}
