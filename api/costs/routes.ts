import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createCosts } from './create.ts';
import { listCosts } from './list.ts';

export const costRoutes: readonly Route<ApiDeps>[] = [createCosts, listCosts];
