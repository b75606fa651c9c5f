import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createView } from './create.ts';
import { deleteView } from './delete.ts';
import { listViews } from './list.ts';
import { readView } from './read.ts';
import { updateView } from './update.ts';

export const viewRoutes: readonly Route<ApiDeps>[] = [createView, listViews, readView, updateView, deleteView];
