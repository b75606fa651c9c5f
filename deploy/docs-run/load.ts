/** Visits and writes through the proxy of the machine while something else happens there, and what failed of them. */
import type { Shell } from './shell.ts';

const api = 'https://api.example.com/v1';

/** An app with two links, as a person makes them: one is visited, the other one is changed. */
export const madeLinks = `
call() { curl -fsS -H "authorization: Bearer $token" -H 'content-type: application/json' "$@"; }
text() { sed -n 's/.*"'$1'" *: *"\\([^"]*\\)".*/\\1/p'; }
login() { token=$(token= call -d @/var/lib/signpost/login.json ${api}/auth/login | text access_token); }
login
app=$(call -d '{"name":"Docs","fallback_url":"https://example.com/"}' ${api}/apps)
link=$(call -d '{"app_id":"'$(echo "$app" | text id)'","path":"/welcome"}' ${api}/links)
changed=$(call -d '{"app_id":"'$(echo "$app" | text id)'","path":"/changed"}' ${api}/links)
host=$(echo "$app" | text host)
visited=/$(echo "$link" | text short_code)
echo "127.0.0.1 $host" >>/etc/hosts
until curl -fsS -o /dev/null https://$host$visited; do sleep 0.5; done
`;

const program = '/opt/signpost/source/deploy/docs-run/visits.mjs';
const writes = '$(echo "$app" | text api_key) $(echo "$app" | text id) $(echo "$changed" | text id) $token';
const start = (withWrites: boolean) => `
login
node ${program} $host $visited ${withWrites ? writes : ''} >/root/figures.json &
visits=$!
sleep 5
`;
const stop = `
sleep 5
kill $visits
wait $visits
journalctl -u caddy -o cat --since -10min | grep '"level":"error"' | cut -c 1-1000 | tail -n 5 || true
cat /root/figures.json
`;

interface Figures {
  readonly kinds: Readonly<
    Record<
      string,
      { readonly sent: number; readonly failed: Readonly<Record<string, number>>; readonly longestMs: number }
    >
  >;
  /** From the beginning of the first write that failed to that of the last. */
  readonly refusedWritesMs: number;
}

/**
 * @param refusedWritesMsMax null: only visits are sent, because the API will be away.
 * @throws if a visit failed, or writes were refused for longer.
 */
export async function underLoad(
  shell: Shell,
  what: string,
  refusedWritesMsMax: number | null,
  work: () => Promise<void>,
): Promise<void> {
  await shell.run(start(refusedWritesMsMax !== null));
  await work();
  const printed = await shell.run(stop);
  const { kinds, refusedWritesMs } = JSON.parse(printed.slice(printed.lastIndexOf('{"kinds"'))) as Figures;
  for (const [kind, { sent, failed, longestMs }] of Object.entries(kinds)) {
    console.log(`-- ${what}: ${sent} ${kind}, failed: ${JSON.stringify(failed)}, longest ${longestMs} ms`);
    if (sent < 20) throw new Error('too few requests were sent');
  }
  if (refusedWritesMsMax !== null)
    console.log(`-- ${what}: writes that began within ${refusedWritesMs} ms were refused`);
  if (Object.keys(kinds['redirects']?.failed ?? { none: 0 }).length > 0)
    throw new Error(`visits failed during ${what}`);
  if (refusedWritesMsMax !== null && refusedWritesMs > refusedWritesMsMax)
    throw new Error(`writes were refused for more than ${refusedWritesMsMax} ms during ${what}`);
}
