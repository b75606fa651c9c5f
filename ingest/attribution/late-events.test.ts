import { expect, test } from 'vitest';
import { systemTime } from '#common/time.ts';
import { InstallLookup } from './install-lookup.ts';
import type { Cursor } from './late-cursors.ts';
import { LateEvents } from './late-events.ts';
import type { StoredInstall, StoredRecords } from './stored-records.ts';

const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
const install: StoredInstall = {
  ...{ app_id: 'app', install_id: 'ins', device_id: 'd1', link_id: 'lnk', click_id: '' },
  ...{ platform: 'ios', country: '', network: '', campaign: '', ...utm },
};
const event = { app_id: 'app', install_id: '', device_id: 'd1' };
const noQuestion = () => Promise.reject(new Error('is not asked'));

test.each<[string, Cursor | null]>([
  ['a new one', null],
  ['one whose former owner had looked at the install', { 0: 7 }],
])(
  'a process that acquires a partition, %s, finds the install of its next event, even if it looked it up too early before',
  async (_, kept) => {
    let stored: StoredInstall[] = [];
    const records: StoredRecords = {
      count: noQuestion,
      ids: () => ({ [Symbol.asyncIterator]: () => ({ next: noQuestion }) }),
      withIds: noQuestion,
      newestInstalls: async (column) => (column === 'device_id' ? stored : []),
    };
    const installs = new InstallLookup(null, records);
    const late = new LateEvents({
      store: {
        batchesWithInstalls: noQuestion,
        installsOf: noQuestion,
        waiting: noQuestion,
        firstWaiting: async () => 0,
      },
      cursors: { read: async () => kept, decided: async () => ({ 0: 7 }), write: async () => undefined },
      installs,
      apps: { of: async () => new Map() },
      partsOf: () => [],
      time: systemTime,
    });
    expect(await installs.find([event])).toEqual([null]);
    stored = [install];
    expect(await installs.find([event])).toEqual([null]);
    await late.begin(2);
    expect(await installs.find([event])).toMatchObject([{ install_id: 'ins', link_id: 'lnk' }]);
  },
);
