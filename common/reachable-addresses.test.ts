import { expect, test } from 'vitest';
import { ReachableAddresses } from './reachable-addresses.ts';

const open = new ReachableAddresses([]);

test.each(['93.184.216.34', '8.8.8.8', '2606:4700::6810:85e5', '2a00:1450:4001:80b::200e', '::ffff:8.8.8.8'])(
  'the public address %s is reachable',
  (address) => expect(open.has(address)).toBe(true),
);

test.each([
  ...['127.0.0.1', '127.255.255.254', '0.0.0.0', '0.1.2.3', '10.0.0.1', '172.16.0.1', '192.168.1.1', '100.64.0.1'],
  // Metadata of clouds.
  ...['169.254.169.254', '100.100.100.200', '192.0.0.192', '168.63.129.16', 'fd00:ec2::254', '::ffff:168.63.129.16'],
  ...['192.0.2.1', '198.51.100.1', '203.0.113.1', '198.18.0.1', '224.0.0.1', '240.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::127.0.0.1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:0:127.0.0.1', 'fe80::1', 'fc00::1'],
  // NAT64, 6to4 and Teredo carry an IPv4 address.
  ...['64:ff9b::7f00:1', '64:ff9b::8.8.8.8', '64:ff9b:1::1', '2002:7f00:1::', '2001:0:7f00:1::', '2001:db8::1'],
  ...['ff02::1', '4000::1', '5f00::1', 'fe80::1%eth0', 'localhost', '', '1.2.3'],
])('%s is not reachable', (address) => expect(open.has(address)).toBe(false));

test('an operator can allow networks and single addresses', () => {
  const more = new ReachableAddresses(['10.1.0.0/16', '127.0.0.1', 'fd00::/8']);
  expect(['10.1.2.3', '127.0.0.1', '::ffff:10.1.2.3', 'fd00::1'].filter((one) => !more.has(one))).toEqual([]);
  expect(['10.2.0.1', '127.0.0.2', 'fe80::1', '64:ff9b::a01:203'].filter((one) => more.has(one))).toEqual([]);
});
