/** The kinds of settings: each parses its text, or says what is wrong with it. */
import { nothingRefused, plainUrlOf } from './config-formats.ts';
import { urlsIn } from './url-list.ts';

export interface Setting<T> {
  readonly about: string;
  readonly fallback: T;
  /** Parses the text of the environment, or says what is wrong with it. */
  readonly parse: (text: string) => T | Fault;
  readonly isSecret?: boolean;
}

export class Fault {
  readonly reason: string;
  constructor(reason: string) {
    this.reason = reason;
  }
}

export function integer(fallback: number, min: number, max: number, about: string): Setting<number> {
  return {
    about,
    fallback,
    parse: (text) => {
      const value = Number(text);
      if (Number.isInteger(value) && value >= min && value <= max) return value;
      return new Fault(`must be a whole number from ${min} to ${max}`);
    },
  };
}

/** A number from 0 to 1. */
export function fraction(fallback: number, about: string): Setting<number> {
  return {
    about,
    fallback,
    parse: (text) => {
      const value = Number(text);
      return text.trim() !== '' && value >= 0 && value <= 1 ? value : new Fault('must be a number from 0 to 1');
    },
  };
}

export function port(fallback: number, about: string): Setting<number> {
  return integer(fallback, 0, 65_535, about);
}

export function text(fallback: string, about: string, isSecret = false): Setting<string> {
  return { about, fallback, isSecret, parse: (value) => value };
}

export function choice<const T extends string>(fallback: T, choices: readonly T[], about: string): Setting<T> {
  return {
    about,
    fallback,
    parse: (value) => choices.find((one) => one === value) ?? new Fault(`must be one of ${choices.join(', ')}`),
  };
}

export function flag(fallback: boolean, about: string): Setting<boolean> {
  return {
    about,
    fallback,
    parse: (value) => (value === 'true' ? true : value === 'false' ? false : new Fault('must be true or false')),
  };
}

/** Text in a certain format; `of` returns null for invalid text. */
export function form(
  fallback: string,
  of: (text: string) => string | null,
  what: string,
  about: string,
): Setting<string> {
  return { about, fallback, parse: (value) => of(value) ?? new Fault(`must be ${what}`) };
}

export const plainUrl = (fallback: string, about: string) =>
  form(fallback, plainUrlOf, 'a URL with http:// or https://, without a user, a query or a fragment', about);

/** Text of at least this many characters. */
export function secret(charsMin: number, about: string): Setting<string> {
  return {
    about,
    fallback: '',
    isSecret: true,
    parse: (value) => (value.length >= charsMin ? value : new Fault(`must have at least ${charsMin} characters`)),
  };
}

/** A comma-separated list of names whose default is not empty: `none` makes it empty. */
export function names(fallback: string[], about: string): Setting<string[]> {
  return {
    about,
    fallback,
    parse: (value) => {
      if (value.trim() === 'none') return [];
      const given = value.split(',').map((name) => name.trim());
      return given.every((name) => /^[^\s=&]{1,64}$/.test(name))
        ? given
        : new Fault('must be names separated by commas, or none');
    },
  };
}

/** A comma-separated list; empty text is an empty list. */
export function list(
  about: string,
  of: (entry: string) => string | null = (entry) => entry,
  what = '',
): Setting<string[]> {
  return {
    about,
    fallback: [],
    parse: (value) => {
      const entries = value.split(',').map((entry) => entry.trim());
      const values = entries.filter((entry) => entry !== '').map(of);
      return values.includes(null) ? new Fault(`must contain only ${what}`) : values.filter((one) => one !== null);
    },
  };
}

export function url(
  fallback: string,
  schemes: readonly string[],
  about: string,
  refuse = nothingRefused,
): Setting<string> {
  return {
    about,
    fallback,
    isSecret: true,
    parse: (value) => {
      const scheme = URL.canParse(value) ? new URL(value).protocol.slice(0, -1) : '';
      const fault = refuse(value) ?? (schemes.includes(scheme) ? '' : `must be a URL with ${schemes.join(' or ')}://`);
      return fault === '' ? value : new Fault(fault);
    },
  };
}

/** One URL, or several separated by commas. */
export function urls(fallback: string, schemes: readonly string[], about: string): Setting<string> {
  const one = url(fallback, schemes, about);
  return {
    ...one,
    parse: (value) => {
      const given = urlsIn(value);
      const fault = given.map(one.parse).find((parsed) => parsed instanceof Fault);
      return fault ?? (given.length > 0 ? given.join(',') : one.parse(value));
    },
  };
}

export function ownDatabase(whose: string): Setting<string> {
  return urls('', ['postgres', 'postgresql'], `Postgres URL for ${whose}; if empty, DATABASE_URL is used.`);
}
