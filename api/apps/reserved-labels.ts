/**
 * Labels that no app gets below the installation's domain: a visitor or a program would take such a host for a service of
 * the installation itself.
 */
const labels = [
  // Pages that people log in to or trust.
  ...['account', 'accounts', 'admin', 'administrator', 'api', 'auth', 'billing', 'console', 'dashboard', 'help'],
  ...['login', 'logout', 'oauth', 'register', 'secure', 'security', 'signin'],
  ...['signup', 'ssl', 'sso', 'status', 'support', 'www', 'www1', 'www2'],
  // Mailboxes with a meaning (RFC 2142), and those with which certificate authorities verify a domain.
  ...['abuse', 'hostmaster', 'noc', 'postmaster', 'root', 'sysadmin', 'webmaster'],
  // Names that programs look up by themselves: mail, calendars, proxies, name servers.
  ...['autoconfig', 'autodiscover', 'broadcasthost', 'caldav', 'carddav', 'dns', 'ftp', 'imap', 'isatap', 'ldap'],
  ...['localhost', 'mail', 'mta-sts', 'mx', 'ns', 'ns1', 'ns2', 'ns3', 'ns4', 'openpgpkey', 'pop', 'pop3', 'sip'],
  ...['smtp', 'teredo', 'webdisk', 'webdav', 'webmail', 'wpad'],
];

export const reservedLabels: ReadonlySet<string> = new Set(labels);
