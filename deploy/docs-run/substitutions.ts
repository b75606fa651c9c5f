/** What the run changes in commands of the pages, and why: it prints each. */
import type { followedPages } from './blocks.ts';

type Reasoned = readonly [written: string, run: string, reason: string];

const settings = 'install -m 600 deploy/single/signpost.env /etc/signpost/signpost.env';
const limits = ['EVENTS', 'LINKS', 'GENERAL'].map((name) => `RATE_LIMIT_${name}=1000000`).join('\\n');
const authority = '/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt';

export const substitutions: Readonly<Record<(typeof followedPages)[number], readonly Reasoned[]>> = {
  'production.md': [
    ['YOUR_COPY_OF_THIS_REPOSITORY', '/mnt/sources', 'a placeholder'],
    [
      settings,
      `${settings}\nprintf '${limits}\\n' >>/etc/signpost/signpost.env`,
      'one sender makes the load of many, so its rate is not limited',
    ],
    [
      'cp deploy/single/Caddyfile /etc/caddy/Caddyfile',
      "sed '0,/^{/s//{\\n\\tlocal_certs/' deploy/single/Caddyfile >/etc/caddy/Caddyfile",
      'Caddy signs certificates itself, because nobody outside can reach the machine',
    ],
    [
      'systemctl restart caddy',
      `systemctl restart caddy
until cp ${authority} /usr/local/share/ca-certificates/caddy.crt; do sleep 0.2; done
update-ca-certificates
until curl -fsS -o /dev/null https://api.example.com/v1/version; do sleep 0.5; done`,
      'the machine trusts these certificates',
    ],
  ],
  'upgrade.md': [['releases/THE_RELEASE_BEFORE', '"$before"', 'a placeholder']],
  'backup.md': [],
};
