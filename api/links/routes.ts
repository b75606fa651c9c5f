import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { checkShortCode } from './availability.ts';
import { bulkDeleteLinks, bulkUpdateLinks } from './bulk-change.ts';
import { bulkCreateLinks } from './bulk-create.ts';
import { createLinkRoute } from './create.ts';
import { deleteLinkRoute } from './delete.ts';
import { explainLinkRoute } from './explain.ts';
import { listLinks } from './list.ts';
import { lookUpLink } from './lookup.ts';
import { deleteLinkPassword, setLinkPassword } from './password.ts';
import { qr } from './qr.ts';
import { readLinkRoute } from './read.ts';
import { listTags } from './tags.ts';
import { updateLinkRoute } from './update.ts';
import { upsertLink } from './upsert.ts';

export const linkRoutes: readonly Route<ApiDeps>[] = [
  listLinks,
  lookUpLink,
  checkShortCode,
  createLinkRoute,
  bulkCreateLinks,
  bulkUpdateLinks,
  bulkDeleteLinks,
  upsertLink,
  readLinkRoute,
  updateLinkRoute,
  deleteLinkRoute,
  explainLinkRoute,
  setLinkPassword,
  deleteLinkPassword,
  qr,
  listTags,
];
