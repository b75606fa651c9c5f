/** The dashboard: a page on the API's origin. */
import './styles/tokens.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/parts.css';
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiFailure } from './api.ts';
import { App } from './app.tsx';
import { language } from './texts/text.ts';
import { applyTheme } from './theme.ts';

applyTheme();
document.documentElement.lang = language;

/** A 401 anywhere means that the session has ended: asking who is logged in again shows the login. */
const onError = (error: unknown) => {
  if (error instanceof ApiFailure && error.status === 401) client.setQueryData(['me'], null);
};

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({
    // A failed login says nothing about the browser's current session.
    onError: (error, _variables, _result, { meta }) => {
      if (meta?.['isLogin'] !== true) onError(error);
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      retry: (count, error) => {
        const status = error instanceof ApiFailure ? error.status : 400;
        return count < 2 && (status === 0 || status === 429 || status >= 500);
      },
      retryDelay: (count, error) => {
        const seconds = error instanceof ApiFailure ? error.retryAfterSeconds : null;
        return seconds === null ? 500 * 2 ** count : Math.min(seconds, 60) * 1000;
      },
    },
  },
});

const root = document.getElementById('root');
if (!root) throw new Error('the page has no root');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
