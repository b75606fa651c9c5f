export function packagesOf(files: readonly string[]): string[];
export function packagesBelow(folder: string): string[];
export function noticesOf(folders: readonly string[], apache: string): string;
