import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createSharedPage } from './create.ts';
import { deleteSharedPage } from './delete.ts';
import { readSharedFigures } from './figures.ts';
import { listSharedPages } from './list.ts';

export const sharedPageRoutes: readonly Route<ApiDeps>[] = [
  createSharedPage,
  listSharedPages,
  deleteSharedPage,
  readSharedFigures,
];
