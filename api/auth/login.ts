import { authRoute, TokenPairSchema, tag, tokenPairExample } from './parts.ts';
import { PasswordLoginBody, passwordLogin, passwordLoginExample } from './password-login.ts';

export const login = authRoute({
  method: 'POST',
  path: '/auth/login',
  operationId: 'login',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Log in with an e-mail address and a password',
  description:
    'An unknown e-mail address and a wrong password get the same answer. After a few failures, further attempts on the same account are delayed (429 with Retry-After), except from networks with an earlier successful login. If the user has a second factor, the answer is 401 with details.reason totp_required while totp_code is missing, and totp_invalid while it is wrong.',
  body: PasswordLoginBody,
  bodyExample: passwordLoginExample,
  answers: { 200: { description: 'A token pair.', schema: TokenPairSchema, example: tokenPairExample } },
  handle: ({ auth }, { body, ip }) =>
    passwordLogin(auth, body, ip, async (userId, passwordHash) => {
      const pair = await auth.sessions.begin(userId, passwordHash);
      return pair && { status: 200, body: pair };
    }),
});
