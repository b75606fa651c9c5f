import { useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Brand } from '#dashboard/parts/icons.tsx';
import { LoginForm } from '#dashboard/parts/login-form.tsx';
import { t } from '#dashboard/texts/text.ts';

/** @param hasEnded whether the page was logged in before. */
export function Login({ hasEnded }: { readonly hasEnded: boolean }) {
  const client = useQueryClient();
  return (
    <main className="door">
      <Brand />
      <div className="card">
        <h1>{t('login.title')}</h1>
        <LoginForm
          action={t('login.submit')}
          notice={hasEnded ? t('login.ended') : undefined}
          onLogin={() => client.resetQueries()}
        />
        <Link href="/password-reset" className="small">
          {t('reset.forgotten')}
        </Link>
      </div>
    </main>
  );
}
