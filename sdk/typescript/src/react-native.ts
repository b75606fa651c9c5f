/**
 * Signpost for React Native and Expo. What is native is passed in, so that this package needs none of it. Not run on a
 * device: the tests drive it with stand-ins.
 */
import { Client } from './client.ts';
import { fetchSend } from './fetch-send.ts';
import { FirstOpening } from './first-open.ts';
import * as links from './link-work.ts';
import type { DeviceFields, Store } from './platform.ts';
import type { Options, Signpost } from './types.ts';

export type * from './types.ts';

/** `@react-native-async-storage/async-storage` */
export interface AsyncStorageLike {
  getItem(key: string): Promise<string | null>;
  setItem(key: string, value: string): Promise<void>;
  multiRemove(keys: string[]): Promise<void>;
  getAllKeys(): Promise<readonly string[]>;
}

/** `Linking` of react-native */
export interface LinkingLike {
  getInitialURL(): Promise<string | null>;
  addEventListener(type: 'url', listener: (event: { url: string }) => void): unknown;
}

/** `AppState` of react-native */
export interface AppStateLike {
  addEventListener(type: 'change', listener: (state: string) => void): unknown;
}

/** The fields of POST /sdk/match that the app knows; matching by score compares them with the click's. */
export interface Device {
  readonly os_version?: string;
  readonly device_model?: string;
  readonly language?: string;
  readonly languages?: readonly string[];
  readonly timezone?: string;
  readonly screen_width?: number;
  readonly screen_height?: number;
  readonly screen_scale?: number;
  readonly app_version?: string;
}

export interface NativeOptions extends Options {
  /** `Platform.OS` */
  readonly platform: 'ios' | 'android';
  readonly storage: AsyncStorageLike;
  readonly linking?: LinkingLike;
  readonly appState?: AppStateLike;
  readonly device?: Device;
  /** From the Play Store's install referrer library. */
  readonly installReferrer?: () => Promise<string | null>;
  /** From a network library: requests that are made without a network then leave nothing in doubt. */
  readonly isConnected?: () => boolean;
}

/** One per app, outside of components. */
export function createSignpost(options: NativeOptions): Signpost {
  const { platform, storage, linking, appState, device = {}, installReferrer, isConnected = () => true } = options;
  const fields: DeviceFields = { platform, ...device, sdk_name: 'react-native', sdk_version: '0.1.0' };
  const client = new Client(options, {
    kind: 'device',
    firstOpen: (host) => new FirstOpening(host, installReferrer),
    store: nativeStore(storage, `signpost:${options.apiKey.slice(-6)}:`),
    send: fetchSend(() => !isConnected()),
    now: Date.now,
    random: Math.random,
    newId,
    timer: setTimeout,
    exclusively: async (work) => {
      await work();
      return true;
    },
    device: () => fields,
    links: () => links,
  });
  const open = (url: string | null) => (url ? client.open(url) : null);
  void linking?.getInitialURL().then(open, () => null);
  linking?.addEventListener('url', ({ url }) => void open(url));
  appState?.addEventListener('change', (state) => {
    if (state !== 'active') void client.flush();
  });
  return client;
}

function nativeStore(storage: AsyncStorageLike, prefix: string): Store {
  return {
    get: (key) => storage.getItem(prefix + key),
    set: (key, text) => storage.setItem(prefix + key, text),
    remove: (keys) => storage.multiRemove(keys.map((key) => prefix + key)),
    async keys() {
      const keys = await storage.getAllKeys();
      return keys.flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : []));
    },
  };
}

/** Hermes has no crypto. */
function newId(kind: string): string {
  const random = () => Math.random().toString(36).slice(2, 12).padEnd(10, '0');
  return `${kind}-${random()}${random()}${random()}`;
}
