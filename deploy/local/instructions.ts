/** The text printed after startup: addresses, and shell commands to paste. */
export interface Addresses {
  readonly apiUrl: string;
  /** Empty when the port is not open. */
  readonly redirectorHttp: string;
  readonly redirectorHttps: string;
  readonly dataDir: string;
  readonly certFile: string;
  readonly processesFile: string;
  /** File with the body of a login; null when the password was configured and is stored in no file. */
  readonly loginFile: string | null;
  readonly email: string;
  /** The password generated during this start; null when it was configured or generated earlier, or a log would keep it. */
  readonly newPassword: string | null;
}

/** Adds single quotes for a shell where they are needed. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const phone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1';

/** A tour from login to the first counted click, as shell lines that need only curl and sed. */
function tour(addresses: Addresses): string[] {
  const isPlain = addresses.redirectorHttp !== '';
  const { loginFile, email } = addresses;
  // Every user of the machine sees the arguments of programs, so curl reads secrets from files and its input; printf is a part
  // of the shell. In a password with quotes or backslashes these need one more backslash.
  const [given, body] =
    loginFile === null
      ? [`printf '{"email":"%s","password":"%s"}' ${quoted(email)} "$ADMIN_PASSWORD" | `, '@-']
      : ['', `@${quoted(loginFile)}`];
  const json = '-H "content-type: application/json"';
  const redirector = isPlain ? addresses.redirectorHttp : addresses.redirectorHttps;
  return [
    `api=${addresses.apiUrl} cert=${quoted(addresses.certFile)}`,
    `call() { printf 'header = "authorization: Bearer %s"' "$token" | curl -sS -K - --cacert "$cert" ${json} "$@"; }`,
    `text() { sed -n 's/.*"'$1'" *: *"\\([^"]*\\)".*/\\1/p'; }`,
    `token=$(${given}curl -sS --cacert "$cert" ${json} -d ${body} $api/auth/login | text access_token)`,
    `app=$(call -d '{"name":"Tour","fallback_url":"https://example.com/"}' $api/apps)`,
    'link=$(call -d \'{"app_id":"\'$(echo "$app" | text id)\'","path":"/welcome","campaign":"tour"}\' $api/links)',
    `curl -sS${isPlain ? '' : 'k'} -o /dev/null -w '%{http_code} %{redirect_url}\\n' -A '${phone}' -H "host: $(echo "$app" | text host)" ${redirector}/$(echo "$link" | text short_code)`,
    `for try in $(seq 50); do call "$api/analytics/overview?link_id=$(echo "$link" | text id)" | grep -o '"clicks":[1-9][0-9]*' | head -n 1 | cut -d : -f 2 | grep . && break; sleep 0.2; done`,
  ];
}

export function instructions(addresses: Addresses): string {
  const { email, newPassword, loginFile } = addresses;
  const place =
    loginFile === null ? 'with the password in ADMIN_PASSWORD' : `password in ${loginFile} until it is changed`;
  const password =
    newPassword === null ? place : `password ${newPassword} (stored in ${loginFile} until it is changed)`;
  const isPrivate = addresses.apiUrl.startsWith('https:');
  const warning = isPrivate ? '   your browser will warn you: the certificate is self-signed' : '';
  return [
    '',
    `Dashboard    ${addresses.apiUrl.replace(/\/v1$/, '/')}${warning}`,
    `API          ${addresses.apiUrl}   reference: ${addresses.apiUrl}/docs   certificate: ${addresses.certFile}`,
    `Short links  ${[addresses.redirectorHttp, addresses.redirectorHttps].filter((url) => url !== '').join('   ')}`,
    `Login        ${email}, ${password}`,
    `Data         ${addresses.dataDir}   processes and metrics addresses: ${addresses.processesFile}`,
    '',
    `Tour: log in, create a link, click it and count the click. Paste into a shell${loginFile === null ? ' with ADMIN_PASSWORD set' : ''}:`,
    '',
    ...tour(addresses).map((line) => `  ${line}`),
    '',
  ].join('\n');
}
