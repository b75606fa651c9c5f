import { AdminError } from '#api/admin/questions.ts';
import { StartupError } from './child.ts';

/** Shows the sentence of a StartupError without its stack, as every refusal of an admin command. */
export async function asAdminError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof StartupError ? new AdminError(error.message) : error;
  }
}
