import type { ProcessConfig } from '#common/process/config-roles.ts';
import type { SmtpSettings } from './smtp.ts';

/** Null if no mail server is configured. @throws if a required setting is missing. */
export function smtpSettings(config: ProcessConfig<'api'>): SmtpSettings | null {
  const { SMTP_URL: text, SMTP_TLS, MAIL_FROM: from } = config;
  if (text === '') return null;
  if (from === '') throw new Error('SMTP_URL is set and MAIL_FROM is not: set MAIL_FROM to the sender’s address');
  const url = new URL(text);
  const isSecure = url.protocol === 'smtps:';
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? (isSecure ? 465 : 587) : Number(url.port),
    isSecure,
    allowsPlain: SMTP_TLS === 'if_offered',
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    from,
  };
}
