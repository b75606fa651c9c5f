import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { expect, test } from 'vitest';
import { addressNetworkOf } from '#common/address-writer.ts';
import { normalizedIp, storedIp } from './stored-address.ts';

const octet = fc.oneof(
  fc.integer({ min: 0, max: 300 }).map(String),
  fc.constantFrom('00', '01', '010', '0x1', '', ' 1', '1 ', '1\n'),
);
const address = fc.oneof(
  fc.array(octet, { minLength: 3, maxLength: 5 }).map((octets) => octets.join('.')),
  fc.constantFrom('1.2.3.4.', '.1.2.3.4', '1.2.3.4\n', '::ffff:1.2.3.4', '2001:db8::1', '1.2.3.4~hash'),
);

test('an IPv4 address parsed without the library is stored as the library parses it', () => {
  fc.assert(
    fc.property(address, (text) => {
      const bare = text.split('~')[0] ?? '';
      expect(normalizedIp(text)).toBe(
        !ipaddr.isValid(bare) ? '' : /^(?:\d{1,3}\.){3}\d{1,3}$/.test(bare) ? bare : ipaddr.process(bare).toString(),
      );
      const ip = normalizedIp(text);
      expect(storedIp(ip, 'anonymize_ip')).toBe(addressNetworkOf(ip));
    }),
    { numRuns: 500 },
  );
});
