/** Prompts for missing options on a terminal. Without a terminal, a missing option is an error that names it. */
import { cancel, isCancel, password, select, text } from '@clack/prompts';
import type { Refused } from './refusal.ts';

/** An expected failure of a command. Shown as a message without a stack trace. */
export class AdminError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'AdminError';
  }
}

/** Returns a successful outcome. @throws AdminError with the reason of a refusal. */
export function done<T extends { readonly kind: string }>(outcome: T | Refused): T {
  if (outcome.kind === 'refused' && 'message' in outcome) throw new AdminError(outcome.message);
  return outcome as T;
}

const STDIN_BYTES_MAX = 4096;

type Fault = (value: string) => string | null;

function isTerminal(): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true;
}

function checked(what: string, value: string, fault: Fault): string {
  const message = fault(value);
  if (message !== null) throw new AdminError(`${what} ${message}`);
  return value;
}

function answered(value: string | symbol): string {
  if (!isCancel(value)) return String(value);
  cancel('Nothing was changed.');
  throw new AdminError('canceled');
}

/** The option's value, or the answer to a question. */
export async function ask(option: string, given: string | undefined, question: string, fault: Fault): Promise<string> {
  if (given !== undefined) return checked(option, given, fault);
  if (!isTerminal()) throw new AdminError(`${option} is missing`);
  return answered(await text({ message: question, validate: (value) => fault(value ?? '') ?? undefined }));
}

export async function choose<const T extends string>(
  option: string,
  given: string | undefined,
  question: string,
  choices: readonly T[],
): Promise<T> {
  let value = given;
  if (value === undefined) {
    if (!isTerminal()) throw new AdminError(`${option} is missing: one of ${choices.join(', ')}`);
    value = answered(await select<string>({ message: question, options: choices.map((value) => ({ value })) }));
  }
  const found = choices.find((one) => one === value);
  if (found === undefined) throw new AdminError(`${option} must be one of ${choices.join(', ')}`);
  return found;
}

/**
 * Reads a password from a repeated prompt, or from the first line of standard input. Never from ADMIN_PASSWORD, which is the
 * first user's and may be set for other reasons. Never an option: command lines are visible to every user of the machine and are kept by shells.
 */
export async function askPassword(fault: Fault): Promise<string> {
  if (!isTerminal()) return checked('the password on standard input', await firstLine(), fault);
  const validate = (value: string | undefined) => fault(value ?? '') ?? undefined;
  const first = answered(await password({ message: 'Password', validate }));
  const again = answered(await password({ message: 'Repeat the password' }));
  if (first !== again) throw new AdminError('the two passwords differ');
  return first;
}

async function firstLine(): Promise<string> {
  let input = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    input += String(chunk);
    if (input.includes('\n') || input.length > STDIN_BYTES_MAX) break;
  }
  return input.split(/\r?\n/, 1)[0] ?? '';
}
