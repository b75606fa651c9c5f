import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createTemplate } from './create.ts';
import { deleteTemplate } from './delete.ts';
import { listTemplates } from './list.ts';
import { readTemplate } from './read.ts';
import { updateTemplate } from './update.ts';

export const utmTemplateRoutes: readonly Route<ApiDeps>[] = [
  createTemplate,
  listTemplates,
  readTemplate,
  updateTemplate,
  deleteTemplate,
];
