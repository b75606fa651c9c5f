import type { Route } from '#common/http/route.ts';
import { changePassword } from './change-password.ts';
import { acceptInvitation, acceptOwnInvitation, lookUpInvitation } from './invitations.ts';
import { login } from './login.ts';
import { logout } from './logout.ts';
import { oauthCallback } from './oauth-callback.ts';
import { oauthStart } from './oauth-start.ts';
import type { AuthDeps } from './parts.ts';
import { requestPasswordReset, resetPassword } from './password-reset.ts';
import { refresh } from './refresh.ts';
import { beginSession, endSession, readSession } from './session.ts';
import { deleteSession, listSessions } from './session-list.ts';
import { chooseSessionOrganization } from './session-organization.ts';
import { beginTotp, confirmTotp, disableTotp } from './totp.ts';

export const authRoutes: readonly Route<AuthDeps>[] = [
  login,
  refresh,
  logout,
  oauthStart,
  oauthCallback,
  beginSession,
  readSession,
  endSession,
  chooseSessionOrganization,
  beginTotp,
  confirmTotp,
  disableTotp,
];

export const sessionRoutes = [listSessions, deleteSession];

export const peopleRoutes = [
  lookUpInvitation,
  acceptInvitation,
  acceptOwnInvitation,
  changePassword,
  requestPasswordReset,
  resetPassword,
];
