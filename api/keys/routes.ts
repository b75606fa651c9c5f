import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createKey } from './create.ts';
import { deleteKey } from './delete.ts';
import { listKeys } from './list.ts';

export const keyRoutes: readonly Route<ApiDeps>[] = [createKey, listKeys, deleteKey];
