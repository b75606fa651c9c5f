import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { checkAssociations } from './check-associations.ts';
import { createAppRoute } from './create.ts';
import { deleteAppRoute } from './delete.ts';
import { listApps } from './list.ts';
import { readAppRoute } from './read.ts';
import { rotateKey } from './rotate-key.ts';
import { updateAppRoute } from './update.ts';

export const appRoutes: readonly Route<ApiDeps>[] = [
  listApps,
  createAppRoute,
  readAppRoute,
  updateAppRoute,
  deleteAppRoute,
  rotateKey,
  checkAssociations,
];
