/** The shared page: a separate entry point without a session. The token is in the fragment of its URL. */
import './styles/tokens.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/parts.css';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { SharedPage } from './screens/shared-page.tsx';
import { language, loadLaterTexts } from './texts/text.ts';
import { applyTheme } from './theme.ts';

applyTheme();
document.documentElement.lang = language;
await loadLaterTexts();

const root = document.getElementById('root');
if (!root) throw new Error('the page has no root');
createRoot(root).render(
  <StrictMode>
    <SharedPage token={location.hash.slice(1)} />
  </StrictMode>,
);
