/**
 * For tests: a provider that behaves like GitHub on loopback. It answers a refused code with 200 and an error, checks
 * PKCE and the client's secret, and accepts each code once. Source: docs.github.com, "Authorizing OAuth apps" and "List
 * email addresses for the authenticated user".
 */
import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

export interface GithubFixture {
  readonly url: string;
  /** The API's data about the next user to log in. */
  emails: object[];
  user: object;
  /** Status of every answer except redirects; 200 is success. */
  failure: number;
  stop(): Promise<void>;
}

const clientSecret = 'github-secret';

export async function startGithubFixture(): Promise<GithubFixture> {
  const codes = new Map<string, { challenge: string; redirectUri: string }>();
  const tokens = new Set<string>();

  const answer = (res: ServerResponse, status: number, body: unknown) =>
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));

  const authorize = (url: URL, res: ServerResponse) => {
    const code = randomBytes(10).toString('hex');
    const redirectUri = url.searchParams.get('redirect_uri') ?? '';
    if (url.searchParams.get('code_challenge_method') !== 'S256') return answer(res, 400, {});
    codes.set(code, { challenge: url.searchParams.get('code_challenge') ?? '', redirectUri });
    const back = new URL(redirectUri);
    back.searchParams.set('code', code);
    back.searchParams.set('state', url.searchParams.get('state') ?? '');
    return res.writeHead(302, { Location: back.href }).end();
  };

  const exchange = async (req: IncomingMessage, res: ServerResponse) => {
    let text = '';
    for await (const chunk of req) text += String(chunk);
    const form = new URLSearchParams(text);
    const code = form.get('code') ?? '';
    const known = codes.get(code);
    codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isRight =
      known?.challenge === challenge &&
      known.redirectUri === form.get('redirect_uri') &&
      form.get('client_secret') === clientSecret;
    if (!isRight)
      return answer(res, 200, { error: 'bad_verification_code', error_description: 'The code is incorrect.' });
    const token = `gho_${randomBytes(18).toString('hex')}`;
    tokens.add(token);
    return answer(res, 200, { access_token: token, scope: 'read:user,user:email', token_type: 'bearer' });
  };

  const server = createServer((req, res) => {
    const url = new URL(req.url ?? '/', 'http://127.0.0.1');
    if (url.pathname === '/login/oauth/authorize') return authorize(url, res);
    if (fixture.failure !== 200) return answer(res, fixture.failure, { message: 'failing' });
    if (url.pathname === '/login/oauth/access_token') {
      exchange(req, res).catch(() => res.destroy());
      return undefined;
    }
    if (!tokens.has(/^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1] ?? '')) return answer(res, 401, {});
    if (url.pathname === '/api/user/emails') return answer(res, 200, fixture.emails);
    if (url.pathname === '/api/user') return answer(res, 200, fixture.user);
    return answer(res, 404, {});
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the fixture has no port');
  const fixture: GithubFixture = {
    url: `http://127.0.0.1:${address.port}`,
    emails: [],
    user: {},
    failure: 200,
    stop: () =>
      new Promise((stopped) => {
        server.close(() => stopped());
        server.closeAllConnections();
      }),
  };
  return fixture;
}

/** Settings with which the endpoints use the fixture. */
export function githubSettings(fixture: GithubFixture): Record<string, string> {
  return {
    OAUTH_GITHUB_CLIENT_ID: 'github-client',
    OAUTH_GITHUB_CLIENT_SECRET: clientSecret,
    OAUTH_GITHUB_URL: fixture.url,
    OAUTH_GITHUB_API_URL: `${fixture.url}/api`,
  };
}
