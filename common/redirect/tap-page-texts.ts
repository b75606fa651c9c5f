/** The texts of the tap page in its languages, and the choice of a language for a visitor. */
import { acceptedLanguages } from '#common/accepted-languages.ts';

export interface TapTexts {
  /** BCP 47, for the `lang` of the page. */
  readonly lang: string;
  readonly dir: 'ltr' | 'rtl';
  /** Used if the link has no title. */
  readonly heading: string;
  readonly button: string;
  /** Text below the button that says what it opens. */
  readonly opens: { readonly app_store: string; readonly play: string };
  /** On iOS: what else the tap does. */
  readonly copies: string;
  /** In apps that open no store. */
  readonly hint: string;
}

type Words = readonly [heading: string, button: string, appStore: string, play: string, copies: string, hint: string];

const words: Readonly<Record<string, Words>> = {
  en: [
    'Continue in the app',
    'Get the app',
    'Opens the App Store.',
    'Opens Google Play.',
    'Copies this link, so the app can take you straight there.',
    'The store can’t be opened from here. Tap ••• and choose “Open in browser”.',
  ],
  ar: [
    'تابِع في التطبيق',
    'تنزيل التطبيق',
    'سيُفتح App Store.',
    'سيُفتح Google Play.',
    'يُنسخ هذا الرابط ليأخذك التطبيق مباشرةً إلى المحتوى.',
    'لا يمكن فتح المتجر من هنا. اضغط على ••• ثم اختر «فتح في المتصفح».',
  ],
  de: [
    'Weiter in der App',
    'App laden',
    'Öffnet den App Store.',
    'Öffnet Google Play.',
    'Kopiert diesen Link, damit die App direkt die richtige Seite zeigt.',
    'Der Store lässt sich von hier aus nicht öffnen. Tippe auf ••• und dann auf „Im Browser öffnen“.',
  ],
  es: [
    'Continúa en la app',
    'Descargar la app',
    'Abre el App Store.',
    'Abre Google Play.',
    'Copia este enlace para que la app te lleve directamente al contenido.',
    'Desde aquí no se puede abrir la tienda. Toca ••• y elige «Abrir en el navegador».',
  ],
  fr: [
    'Continuer dans l’app',
    'Télécharger l’app',
    'Ouvre l’App Store.',
    'Ouvre Google Play.',
    'Copie ce lien pour que l’app vous mène directement au bon endroit.',
    'Impossible d’ouvrir la boutique d’ici. Touchez ••• puis « Ouvrir dans le navigateur ».',
  ],
  it: [
    'Continua nell’app',
    'Scarica l’app',
    'Apre l’App Store.',
    'Apre Google Play.',
    'Copia questo link, così l’app ti porta subito al contenuto.',
    'Da qui non è possibile aprire lo store. Tocca ••• e scegli «Apri nel browser».',
  ],
  ja: [
    'アプリで続ける',
    'アプリを入手',
    'App Storeが開きます。',
    'Google Playが開きます。',
    'アプリで目的のページをすぐに開けるよう、このリンクをコピーします。',
    'ここからはストアを開けません。•••をタップして「ブラウザで開く」を選んでください。',
  ],
  ko: [
    '앱에서 계속하기',
    '앱 받기',
    'App Store로 이동합니다.',
    'Google Play로 이동합니다.',
    '앱에서 해당 페이지를 바로 열 수 있도록 이 링크를 복사합니다.',
    '여기에서는 스토어를 열 수 없습니다. •••를 누르고 ‘브라우저에서 열기’를 선택하세요.',
  ],
  pt: [
    'Continue no app',
    'Baixar o app',
    'Abre a App Store.',
    'Abre o Google Play.',
    'Copia este link para o app levar você direto ao conteúdo.',
    'Não é possível abrir a loja por aqui. Toque em ••• e escolha “Abrir no navegador”.',
  ],
  ru: [
    'Продолжить в приложении',
    'Скачать приложение',
    'Откроется App Store.',
    'Откроется Google Play.',
    'Ссылка будет скопирована, чтобы приложение сразу открыло нужную страницу.',
    'Отсюда нельзя открыть магазин приложений. Нажмите ••• и выберите «Открыть в браузере».',
  ],
  tr: [
    'Uygulamada devam et',
    'Uygulamayı indir',
    'App Store açılır.',
    'Google Play açılır.',
    'Uygulamanın sizi doğrudan içeriğe götürmesi için bu bağlantı kopyalanır.',
    'Mağaza buradan açılamıyor. ••• simgesine dokunup “Tarayıcıda aç” seçeneğini seçin.',
  ],
  'zh-Hans': [
    '在 App 中继续',
    '获取 App',
    '将打开 App Store。',
    '将打开 Google Play。',
    '将拷贝此链接，以便 App 直接打开对应内容。',
    '此处无法打开应用商店。请点按 •••，然后选择“在浏览器中打开”。',
  ],
  'zh-Hant': [
    '在 App 中繼續',
    '取得 App',
    '將會打開 App Store。',
    '將會打開 Google Play。',
    '將會拷貝此連結，讓 App 直接開啟對應內容。',
    '這裡無法打開應用程式商店。請點一下 •••，然後選擇「在瀏覽器中開啟」。',
  ],
};

export const tapLanguages: readonly string[] = Object.keys(words);

const textsByLanguage = new Map(
  Object.entries(words).map(([lang, [heading, button, app_store, play, copies, hint]]): [string, TapTexts] => [
    lang,
    { lang, dir: lang === 'ar' ? 'rtl' : 'ltr', heading, button, opens: { app_store, play }, copies, hint },
  ]),
);

/** With more ranges than this, the header was not written by a browser. */
const RANGES_MAX = 20;

/** The texts for an Accept-Language header (RFC 9110 section 12.5.4); English if it names no supported language. */
export function tapTextsFor(acceptLanguage: string): TapTexts {
  for (const tag of acceptedLanguages(acceptLanguage, RANGES_MAX)) {
    const texts = textsOf(tag.toLowerCase());
    if (texts) return texts;
  }
  return english;
}

function textsOf(tag: string): TapTexts | undefined {
  const [primary = '', ...rest] = tag.split('-');
  if (primary !== 'zh') return textsByLanguage.get(primary);
  const isTraditional =
    rest.includes('hant') || (!rest.includes('hans') && rest.some((one) => /^(tw|hk|mo)$/.test(one)));
  return textsByLanguage.get(isTraditional ? 'zh-Hant' : 'zh-Hans');
}

const english = textsOf('en') as TapTexts;
