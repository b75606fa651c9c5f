/** Sends one mail to the operator's mail server. */
import type { MailText } from '#api/mail-texts.ts';

/** From SMTP_URL, SMTP_TLS and MAIL_FROM. */
export interface SmtpSettings {
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte (smtps); otherwise STARTTLS. */
  readonly isSecure: boolean;
  /** Whether mail may be sent unencrypted if the server does not offer STARTTLS. */
  readonly allowsPlain: boolean;
  readonly user: string;
  readonly password: string;
  readonly from: string;
}

/** `refused`: the server rejected this mail permanently. `failed`: another attempt may succeed. */
export type SendOutcome =
  | { readonly kind: 'sent' }
  | { readonly kind: 'refused'; readonly reason: 'recipient_refused' | 'message_refused' }
  | { readonly kind: 'failed'; readonly reason: FailedReason };
export type FailedReason = 'unreachable' | 'timeout' | 'tls' | 'login' | 'sender_refused' | 'busy';

/** Time limit of one attempt, from the DNS lookup to the server's response; shorter than the mailer's lease. */
const timeLimitMs = 60_000;
const stepMsMax = 20_000;

export type SendMail = (
  mail: MailText & { readonly id: string; readonly recipient: string },
  stopped: AbortSignal,
) => Promise<SendOutcome>;

export interface SmtpOptions {
  /** Replaced in tests. */
  readonly stepMs?: number;
  /** Additional trusted certificates, for tests. */
  readonly ca?: string;
}

export function smtpSender(settings: SmtpSettings, { stepMs = stepMsMax, ca }: SmtpOptions = {}): SendMail {
  const { host, port, isSecure, allowsPlain, user, password, from } = settings;
  const open = async () => {
    const { createTransport } = await import('nodemailer');
    return createTransport({
      host,
      port,
      secure: isSecure,
      requireTLS: !isSecure && !allowsPlain,
      ...(user === '' ? {} : { auth: { user, pass: password } }),
      ...(ca === undefined ? {} : { tls: { ca } }),
      connectionTimeout: stepMs,
      greetingTimeout: stepMs,
      socketTimeout: stepMs,
      socketCloseTimeout: 0,
      allowInternalNetworkInterfaces: true,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };
  /** Loaded with the first mail, because most processes send none. */
  let transport: ReturnType<typeof open> | undefined;
  const domain = /@([^>\s]+)/.exec(from)?.[1] ?? 'localhost';
  return async ({ id, recipient, subject, text }, stopped) => {
    try {
      transport ??= open();
      await (await transport).sendMail({
        from,
        to: { name: '', address: recipient },
        subject,
        text,
        // The same for every attempt, so that a mailbox can recognize a repeated mail.
        messageId: `<${id}@${domain}>`,
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        signal: AbortSignal.any([stopped, AbortSignal.timeout(timeLimitMs)]),
      });
      return { kind: 'sent' };
    } catch (error) {
      return outcomeOf(error as SmtpError);
    }
  };
}

interface SmtpError {
  readonly code?: string;
  /** Node's error code of a failed connection. */
  readonly originalCode?: string;
  readonly command?: string;
  readonly responseCode?: number;
}

function outcomeOf({ code, originalCode = '', command, responseCode }: SmtpError): SendOutcome {
  const isFinal = responseCode === undefined || responseCode >= 500;
  switch (code) {
    case 'EENVELOPE':
      if (command === 'MAIL FROM') return { kind: 'failed', reason: 'sender_refused' };
      return isFinal ? { kind: 'refused', reason: 'recipient_refused' } : { kind: 'failed', reason: 'busy' };
    case 'EMESSAGE':
      return isFinal ? { kind: 'refused', reason: 'message_refused' } : { kind: 'failed', reason: 'busy' };
    case 'EAUTH':
    case 'ENOAUTH':
      return { kind: 'failed', reason: 'login' };
    case 'ETLS':
      return { kind: 'failed', reason: 'tls' };
    case 'ETIMEDOUT':
    case 'EABORT':
      return { kind: 'failed', reason: 'timeout' };
    default: {
      // Codes such as ECONNREFUSED; TLS errors have names such as CERT_HAS_EXPIRED.
      const isSystem = originalCode === '' || /^E[A-Z0-9]+$/.test(originalCode);
      return { kind: 'failed', reason: isSystem ? 'unreachable' : 'tls' };
    }
  }
}
