/** A mail server for tests: keeps what it accepts. A test may have it refuse, hang, or require TLS and a login. */
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';

export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  readonly isEncrypted: boolean;
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

export interface SmtpServerOptions {
  /** For STARTTLS; without one, the server offers none. */
  readonly certificate?: { readonly key: string; readonly cert: string };
  /** The only login that it accepts; without one, none is needed. */
  readonly login?: { readonly user: string; readonly password: string };
}

export interface SmtpServerForTest {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** What it answers to the next recipients; null accepts them. */
  refuse(answer: { readonly code: number; readonly message: string } | null): void;
  /** Answers no recipient until it is called with false. */
  hang(doesHang: boolean): void;
  stop(): Promise<void>;
}

export async function smtpServerForTest({ certificate, login }: SmtpServerOptions = {}): Promise<SmtpServerForTest> {
  const mails: ReceivedMail[] = [];
  let refusal: { readonly code: number; readonly message: string } | null = null;
  let doesHang = false;
  const server = new SMTPServer({
    ...certificate,
    logger: false,
    disableReverseLookup: true,
    authOptional: login === undefined,
    disabledCommands: [...(login === undefined ? ['AUTH'] : []), ...(certificate === undefined ? ['STARTTLS'] : [])],
    closeTimeout: 100,
    onAuth: ({ username, password }, _session, done) => {
      const isRight = username === login?.user && password === login?.password;
      if (isRight) done(null, { user: username });
      else done(new Error('wrong'));
    },
    onRcptTo: (_address, _session, done) => {
      if (doesHang) return;
      done(refusal && Object.assign(new Error(refusal.message), { responseCode: refusal.code }));
    },
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        mails.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          isEncrypted: session.secure,
          ...parsed(Buffer.concat(chunks).toString('latin1')),
        });
        done();
      });
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    port: (server.server.address() as AddressInfo).port,
    mails,
    refuse: (answer) => {
      refusal = answer;
    },
    hang: (value) => {
      doesHang = value;
    },
    stop: () => new Promise((done) => server.close(done)),
  };
}

function parsed(raw: string): Pick<ReceivedMail, 'headers' | 'text'> {
  const [head = '', ...rest] = raw.split('\r\n\r\n');
  const lines = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n');
  const headers = new Map(
    lines.map((line) => [line.split(':')[0]?.toLowerCase() ?? '', line.replace(/^[^:]+: */, '')]),
  );
  const body = rest.join('\r\n\r\n');
  const isQuoted = headers.get('content-transfer-encoding') === 'quoted-printable';
  const bytes = isQuoted
    ? body
        .replaceAll('=\r\n', '')
        .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
    : body;
  return { headers, text: Buffer.from(bytes, 'latin1').toString('utf8') };
}
