import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { create } from './create.ts';
import { remove } from './delete.ts';
import { list } from './list.ts';
import { qr } from './qr.ts';
import { read } from './read.ts';
import { update } from './update.ts';

export const linkRoutes: readonly Route<ApiDeps>[] = [list, create, read, update, remove, qr];
