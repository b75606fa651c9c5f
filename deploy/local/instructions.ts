/** The text a start ends with: where everything is, and commands that work as pasted. */
export interface Addresses {
  readonly apiUrl: string;
  readonly redirectorHttp: string;
  readonly redirectorHttps: string;
  readonly dataDir: string;
  readonly certFile: string;
  readonly email: string;
  /** Null: the user existed already, or the password was given in the environment. */
  readonly newPassword: string | null;
  /** File with the password that was made up, or null when it was given. */
  readonly passwordFile: string | null;
  readonly processesFile: string;
}

/** Single quotes for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function loginLine(addresses: Addresses): string {
  if (addresses.newPassword !== null) {
    return `${addresses.email}, password ${addresses.newPassword} (kept in ${addresses.passwordFile})`;
  }
  if (addresses.passwordFile !== null) return `${addresses.email}, password in ${addresses.passwordFile}`;
  return `${addresses.email}, password as given in ADMIN_PASSWORD`;
}

/**
 * From login to a number: every line can be pasted, with nothing but curl and sed. The field that is wanted stands once
 * in each answer, so sed is enough to read it.
 */
function tour(addresses: Addresses): string[] {
  const password =
    addresses.passwordFile === null ? '$' + '{ADMIN_PASSWORD:?}' : `$(cat ${quoted(addresses.passwordFile)})`;
  const json = `-H 'content-type: application/json'`;
  const call = `curl -sS --cacert ${quoted(addresses.certFile)} -H "authorization: Bearer $TOKEN"`;
  const click =
    addresses.redirectorHttp === ''
      ? `curl -sSk -A 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)' -H "host: $HOST" -o /dev/null -w '%{http_code} %{redirect_url}\\n' ${addresses.redirectorHttps}/$CODE`
      : `curl -sS -A 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)' -H "host: $HOST" -o /dev/null -w '%{http_code} %{redirect_url}\\n' ${addresses.redirectorHttp}/$CODE`;
  return [
    `field() { sed -n "s/.*\\"$1\\" *: *\\"\\([^\\"]*\\)\\".*/\\1/p"; }`,
    `TOKEN=$(curl -sS --cacert ${quoted(addresses.certFile)} ${json} -d "{\\"email\\":\\"${addresses.email}\\",\\"password\\":\\"${password}\\"}" ${addresses.apiUrl}/auth/login | field access_token)`,
    `APP=$(${call} ${json} -d '{"name":"Tour","fallback_url":"https://example.com/"}' ${addresses.apiUrl}/apps); APP_ID=$(echo "$APP" | field id); HOST=$(echo "$APP" | field host)`,
    `CODE=$(${call} ${json} -d "{\\"app_id\\":\\"$APP_ID\\",\\"path\\":\\"/welcome\\",\\"campaign\\":\\"tour\\"}" ${addresses.apiUrl}/links | field short_code)`,
    click,
    `sleep 2; ${call} ${quoted(`${addresses.apiUrl}/analytics/overview?interval=24h`)}`,
  ];
}

export function instructions(addresses: Addresses): string {
  return [
    '',
    `API         ${addresses.apiUrl}  (certificate: ${addresses.certFile})`,
    `Short links ${[addresses.redirectorHttp, addresses.redirectorHttps].filter((url) => url !== '').join('  ')}`,
    `Login       ${loginLine(addresses)}`,
    `Data        ${addresses.dataDir}  (processes and their metrics: ${addresses.processesFile})`,
    '',
    'From login to a number, as pasted:',
    '',
    ...tour(addresses).map((line) => `  ${line}`),
    '',
  ].join('\n');
}
