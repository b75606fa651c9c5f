/** The texts in German. A missing key shows the English text. */
export const german = {
  'nav.overview': 'Übersicht',
};
