/** The format of the vectors, as sdk/vectors/README.md defines it. Only tests use it. */
import type { DeviceFields } from '#src/platform.ts';
import type { Options } from '#src/types.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = Readonly<Record<string, Json>>;

export interface VectorFile {
  readonly about: string;
  readonly cases: readonly VectorCase[];
}

export interface VectorCase {
  readonly title: string;
  readonly kind?: 'device' | 'page' | 'server';
  readonly options?: Partial<Options>;
  readonly device?: DeviceFields;
  readonly referrer?: string;
  readonly random?: readonly number[];
  readonly stored?: Stored;
  readonly steps: readonly Step[];
}

export interface Stored {
  readonly broken?: boolean;
  readonly state?: JsonObject;
  readonly queue?: readonly JsonObject[];
  readonly flight?: { readonly event_ids: readonly string[]; readonly since: number; readonly last: number };
}

export type VectorAnswer =
  | 'lost'
  | 'unsent'
  | 'hold'
  | { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: Json };

export interface Step {
  readonly start?: Partial<Options>;
  readonly call?: string;
  readonly args?: readonly Json[];
  readonly times?: number;
  readonly as?: string;
  readonly result?: Json;
  readonly is?: Json;
  readonly fails?: string;
  readonly with?: string;
  readonly advance?: number;
  readonly jump?: number;
  readonly request?: { readonly path: string; readonly body?: JsonObject; readonly event_ids?: readonly string[] };
  readonly answer?: VectorAnswer;
  readonly idle?: true;
  readonly crash?: true;
  readonly listen?: true;
  readonly links?: readonly Json[];
  readonly stored?: {
    readonly state?: JsonObject;
    readonly queue?: readonly string[];
    readonly flight?: readonly string[];
  };
  readonly kept?: JsonObject;
}
