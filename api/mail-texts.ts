/** The texts of mails, as plain text in the languages of the dashboard. */
import { isEmailAddress } from '#common/email-address.ts';
import { firstCharacters } from '#common/first-characters.ts';

export const mailLanguages = ['en', 'de', 'es'] as const;
export type MailLanguage = (typeof mailLanguages)[number];
export type InvitedRole = 'owner' | 'member' | 'viewer';

/** The content of one mail. Stored encrypted, because it contains a link with a secret. */
export type MailContent =
  | {
      readonly kind: 'invitation';
      readonly language: MailLanguage;
      readonly url: string;
      readonly organization: string;
      /** The e-mail address of the owner who invites. */
      readonly inviter: string;
      readonly role: InvitedRole;
    }
  | { readonly kind: 'password_reset'; readonly language: MailLanguage; readonly url: string };

export interface MailText {
  readonly subject: string;
  readonly text: string;
}

interface Words {
  readonly roles: Readonly<Record<InvitedRole, string>>;
  /** What is null is not shown. */
  readonly invitation: (
    organization: string | null,
    inviter: string | null,
    role: string,
    url: string,
  ) => readonly string[];
  readonly reset: (url: string) => readonly string[];
}

/** The first line is the subject, each following line a paragraph. */
const words: Readonly<Record<MailLanguage, Words>> = {
  en: {
    roles: { owner: 'owner', member: 'member', viewer: 'viewer' },
    invitation: (organization, inviter, role, url) => [
      `Invitation to ${organization ?? 'Signpost'}`,
      `${inviter ?? 'An owner'} invites you to join ${organization === null ? 'an organization' : `“${organization}”`} on Signpost as ${role}.`,
      'To accept, open this link. It works once, for 7 days:',
      url,
      'If you were not expecting this, you can ignore this message.',
    ],
    reset: (url) => [
      'Set a new password',
      'Someone, probably you, asked to reset the password of your Signpost account.',
      'To choose a new password, open this link. It works once, for an hour:',
      url,
      'If it was not you, ignore this message. Your password will not change.',
    ],
  },
  de: {
    roles: { owner: 'Eigentümer', member: 'Mitglied', viewer: 'Betrachter' },
    invitation: (organization, inviter, role, url) => [
      `Einladung zu ${organization ?? 'Signpost'}`,
      `${inviter ?? 'Ein Eigentümer'} lädt Sie ein, ${organization === null ? 'einer Organisation' : `„${organization}“`} auf Signpost beizutreten. Ihre Rolle: ${role}.`,
      'Um anzunehmen, öffnen Sie diesen Link. Er funktioniert einmal und 7 Tage lang:',
      url,
      'Wenn Sie das nicht erwarten, ignorieren Sie diese Nachricht: Es geschieht nichts.',
    ],
    reset: (url) => [
      'Neues Passwort festlegen',
      'Jemand, vermutlich Sie, möchte für Ihr Konto bei Signpost ein neues Passwort festlegen.',
      'Um es zu wählen, öffnen Sie diesen Link. Er funktioniert einmal und eine Stunde lang:',
      url,
      'Wenn Sie das nicht waren, ignorieren Sie diese Nachricht: Ihr Passwort bleibt, wie es ist.',
    ],
  },
  es: {
    roles: { owner: 'propietario', member: 'miembro', viewer: 'lector' },
    invitation: (organization, inviter, role, url) => [
      `Invitación a ${organization ?? 'Signpost'}`,
      `${inviter ?? 'Un propietario'} le invita a unirse a ${organization === null ? 'una organización' : `«${organization}»`} en Signpost. Su función: ${role}.`,
      'Para aceptar, abra este enlace. Funciona una vez, durante 7 días:',
      url,
      'Si no lo esperaba, ignore este mensaje: no ocurre nada.',
    ],
    reset: (url) => [
      'Elegir una contraseña nueva',
      'Alguien, probablemente usted, ha pedido una contraseña nueva para su cuenta de Signpost.',
      'Para elegirla, abra este enlace. Funciona una vez, durante una hora:',
      url,
      'Si no fue usted, ignore este mensaje: su contraseña sigue siendo la misma.',
    ],
  },
};

export function mailText(content: MailContent): MailText {
  const { roles, invitation, reset } = words[content.language];
  const [subject = '', ...paragraphs] =
    content.kind === 'invitation'
      ? invitation(harmlessName(content.organization), addressOf(content.inviter), roles[content.role], content.url)
      : reset(content.url);
  return { subject, text: `${paragraphs.join('\n\n')}\n` };
}

/** What a mail program makes a link of, or decodes: an address, a domain, an encoded word (RFC 2047). */
const active = /:\/\/|@|=\?|www\.|[\p{L}\p{N}][.。][\p{L}\p{N}]*\p{L}/iu;

/** Null for a name that could be a message of its own: anyone who may invite chooses it, and the operator's server sends it. */
function harmlessName(name: string): string | null {
  const shown = oneLine(name);
  return active.test(shown.normalize('NFKC')) ? null : shown;
}

/** Null for an invalid address, which could contain arbitrary text. */
function addressOf(inviter: string): string | null {
  return isEmailAddress(inviter) ? inviter : null;
}

/** Names must not add lines to a mail, nor change the direction or the visibility of what follows. */
function oneLine(text: string): string {
  const visible = text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').replaceAll(/(?![\u200c\u200d])\p{Cf}/gu, '');
  return firstCharacters(visible, 320);
}
