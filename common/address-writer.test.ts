import ipaddr from 'ipaddr.js';
import { expect, test, vi } from 'vitest';
import { AddressWriter, addressName, addressNetworkOf, keptAddress, withoutHash } from './address-writer.ts';
import { DAY_MS } from './durations.ts';

const writer = new AddressWriter('a key for tests that is long enough');
const [ip, neighbour] = ['203.0.113.57', '203.0.113.58'];
const now = Date.UTC(2026, 0, 1);

test('an address is written in full only for full_ip; otherwise only its network can be read', () => {
  expect(writer.ofClick(ip, 'full_ip', now)).toBe(ip);
  for (const mode of ['anonymize_ip', 'no_ip'] as const) {
    const written = writer.ofClick(ip, mode, now);
    expect(written).toMatch(/^203\.0\.113\.0~[\w-]{16}$/);
    expect(withoutHash(written)).toBe('203.0.113.0');
    expect(writer.ofClick('2001:db8:1:2::57', mode, now)).toMatch(/^2001:db8:1::~[\w-]{16}$/);
    expect(writer.ofClick('', mode, now)).toBe('');
  }
});

test('a device finds only clicks from its own address, or its /64 for IPv6', () => {
  for (const mode of ['full_ip', 'anonymize_ip'] as const) {
    const nameOf = (address: string) => addressName(writer.ofClick(address, mode, now), mode);
    expect(nameOf(ip)).toBe(writer.ofDevice(ip, mode));
    expect(nameOf(neighbour)).not.toBe(writer.ofDevice(ip, mode));
    expect(nameOf('2001:db8:1:2::57')).toBe(writer.ofDevice('2001:db8:1:2:aaaa::1', mode));
    expect(nameOf('2001:db8:1:2::57')).not.toBe(writer.ofDevice('2001:db8:1:3::57', mode));
  }
});

test('in no_ip mode clicks match no device, and the address hash changes every day', () => {
  const [today, tomorrow] = [writer.ofClick(ip, 'no_ip', now), writer.ofClick(ip, 'no_ip', now + DAY_MS)];
  expect(addressName(today, 'no_ip')).toBe('');
  expect(writer.ofDevice(ip, 'no_ip')).toBe('');
  expect(tomorrow).not.toBe(today);
  expect(today).not.toBe(writer.ofClick(ip, 'anonymize_ip', now));
  expect(writer.ofClick(ip, 'no_ip', now)).toBe(today);
  expect(writer.ofClick(neighbour, 'no_ip', now)).not.toBe(today);
});

test('the hash depends on the key', () => {
  const other = new AddressWriter('another key of a test, long enough');
  expect(other.ofClick(ip, 'anonymize_ip', now)).not.toBe(writer.ofClick(ip, 'anonymize_ip', now));
});

test('a full address from an earlier version, which an anonymizing app no longer writes, matches nothing', () => {
  expect(addressName(ip, 'anonymize_ip')).toBe('');
});

test.each([
  ['198.51.100.7', '198.51.100.0'],
  ['255.0.10.255', '255.0.10.0'],
  ['198.51.100.256', ''],
  ['198.51.100.7.', ''],
  ['::ffff:198.51.100.7', '198.51.100.0'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1::'],
  ['not an address', ''],
  ['', ''],
])('the network of %j is %j', (address, network) => {
  expect(addressNetworkOf(address)).toBe(network);
  expect(keptAddress(address, 'anonymize_ip')).toBe(network);
  expect(keptAddress(address, 'no_ip')).toBe('');
});

test('an address that is absent has no network, and is not parsed, which would throw within', () => {
  const parsed = vi.spyOn(ipaddr, 'isValid');
  expect(addressNetworkOf('')).toBe('');
  expect(parsed).not.toHaveBeenCalled();
  expect(addressNetworkOf('no address')).toBe('');
  expect(parsed).toHaveBeenCalledOnce();
  parsed.mockRestore();
});
