import type { ApiDeps } from '#api/deps.ts';
import type { Route } from '#common/http/route.ts';
import { createImport } from './create.ts';
import { deleteImport, listImports, readImport } from './read.ts';
import { listImportRows } from './rows.ts';
import { checkImportRoute, confirmImport, undoImport } from './steps.ts';
import { uploadImportPart } from './upload.ts';

export const importRoutes: readonly Route<ApiDeps>[] = [
  listImports,
  createImport,
  readImport,
  uploadImportPart,
  checkImportRoute,
  listImportRows,
  confirmImport,
  undoImport,
  deleteImport,
];
