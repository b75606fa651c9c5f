-- The schema of Postgres after all migrations. Written by `npm run generate`; not run by anything.

CREATE TABLE ingest.batch (
  batch_id text NOT NULL DEFAULT ''::text,
  partition integer NOT NULL,
  epoch bigint NOT NULL,
  frames jsonb NOT NULL,
  parts jsonb NOT NULL,
  boot_id text NOT NULL DEFAULT ''::text,
  stream_time bigint NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  batch_no bigint NOT NULL DEFAULT 0,
  is_partial boolean NOT NULL DEFAULT false,
  is_again boolean NOT NULL DEFAULT false,
  stored jsonb NOT NULL DEFAULT '[]'::jsonb,
  gone jsonb NOT NULL DEFAULT '[]'::jsonb
);

CREATE TABLE ingest.checkpoint (
  partition integer NOT NULL,
  stream_time bigint NOT NULL,
  CONSTRAINT checkpoint_pkey PRIMARY KEY (partition)
);

CREATE TABLE ingest.deletion_clock (
  is_one boolean NOT NULL DEFAULT true,
  reached timestamp with time zone NOT NULL,
  CONSTRAINT deletion_clock_is_one_check CHECK (is_one),
  CONSTRAINT deletion_clock_pkey PRIMARY KEY (is_one)
);

CREATE TABLE ingest.erasure (
  id bigint NOT NULL,
  organization_id text NOT NULL,
  until_ms bigint NOT NULL,
  salt text NOT NULL,
  hashes text[],
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT erasure_pkey PRIMARY KEY (id)
);

CREATE TABLE ingest.installation (
  is_this boolean NOT NULL DEFAULT true,
  id text NOT NULL,
  CONSTRAINT installation_is_this_check CHECK (is_this),
  CONSTRAINT installation_pkey PRIMARY KEY (is_this)
);

CREATE TABLE ingest.last_batch (
  partition integer NOT NULL,
  last_batch_no bigint NOT NULL,
  CONSTRAINT last_batch_pkey PRIMARY KEY (partition)
);

CREATE TABLE ingest.late_cursor (
  partition integer NOT NULL,
  cursors jsonb NOT NULL,
  CONSTRAINT late_cursor_pkey PRIMARY KEY (partition)
);

CREATE TABLE ingest.lease (
  partition integer NOT NULL,
  owner text NOT NULL,
  epoch bigint NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT lease_pkey PRIMARY KEY (partition)
);

CREATE TABLE ingest.ledger (
  partition integer NOT NULL,
  batch_day integer NOT NULL,
  raw_table text NOT NULL,
  month text NOT NULL,
  rows bigint NOT NULL,
  rows_again bigint NOT NULL,
  batch_from bigint NOT NULL,
  batch_to bigint NOT NULL,
  time_from bigint NOT NULL,
  time_to bigint NOT NULL,
  CONSTRAINT ledger_pkey PRIMARY KEY (partition, batch_day, raw_table, month)
);

CREATE TABLE ingest.lost_frames (
  partition integer NOT NULL,
  kind text NOT NULL,
  producer_id text NOT NULL,
  frame_from bigint NOT NULL,
  frame_to bigint NOT NULL,
  records bigint NOT NULL,
  noted_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT lost_frames_pkey PRIMARY KEY (partition, kind, producer_id, frame_from)
);

CREATE TABLE ingest.mark (
  producer_id text NOT NULL,
  kind text NOT NULL,
  partition integer NOT NULL,
  mark bigint NOT NULL,
  ahead jsonb NOT NULL DEFAULT '[]'::jsonb,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT mark_pkey PRIMARY KEY (partition, kind, producer_id)
);

CREATE TABLE ingest.member (
  owner text NOT NULL,
  partitions integer NOT NULL,
  joined_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT member_pkey PRIMARY KEY (owner)
);

CREATE TABLE ingest.name (
  name text NOT NULL,
  run text NOT NULL,
  place text NOT NULL,
  pid integer NOT NULL,
  beats bigint NOT NULL DEFAULT 0,
  beat_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT name_pkey PRIMARY KEY (name)
);

CREATE TABLE ingest.numbering (
  since_ms bigint NOT NULL
);

CREATE TABLE ingest.progress (
  machine text NOT NULL,
  committed_to bigint NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  holder text NOT NULL DEFAULT ''::text,
  CONSTRAINT progress_pkey PRIMARY KEY (machine)
);

CREATE TABLE ingest.revision (
  partition integer NOT NULL,
  replay_from bigint,
  days_from bigint,
  days_to bigint,
  rows_stored bigint NOT NULL DEFAULT 0,
  cells_corrected bigint NOT NULL DEFAULT 0,
  requested_at timestamp with time zone NOT NULL DEFAULT now(),
  done_at timestamp with time zone,
  CONSTRAINT revision_pkey PRIMARY KEY (partition)
);

CREATE TABLE ingest.stray (
  is_one boolean NOT NULL DEFAULT true,
  seen_at timestamp with time zone NOT NULL,
  CONSTRAINT stray_is_one_check CHECK (is_one),
  CONSTRAINT stray_pkey PRIMARY KEY (is_one)
);

CREATE TABLE ingest.unfinished_erasure (
  id bigint NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  ids jsonb,
  days integer[] NOT NULL DEFAULT '{}'::integer[],
  is_erased boolean NOT NULL DEFAULT false,
  begun_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT unfinished_erasure_pkey PRIMARY KEY (id)
);

CREATE TABLE ingest.visitor_salt (
  day integer NOT NULL,
  salt text NOT NULL,
  CONSTRAINT visitor_salt_pkey PRIMARY KEY (day)
);

CREATE TABLE public.ad_postbacks (
  id bigint NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  framework text NOT NULL,
  transaction_id text NOT NULL,
  sequence_index smallint NOT NULL,
  received_at timestamp(3) with time zone NOT NULL DEFAULT now(),
  unverified_reason text,
  version text,
  ad_network_id text,
  campaign_id integer,
  source_identifier text,
  source_app_id text,
  source_domain text,
  marketplace_id text,
  conversion_type text,
  did_win boolean,
  fidelity_type smallint,
  ad_interaction_type text,
  conversion_value smallint,
  coarse_conversion_value text,
  country_code text,
  CONSTRAINT ad_postbacks_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT ad_postbacks_framework_check CHECK ((framework = ANY (ARRAY['skadnetwork'::text, 'adattributionkit'::text]))),
  CONSTRAINT ad_postbacks_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT ad_postbacks_pkey PRIMARY KEY (app_id, framework, transaction_id, sequence_index)
);

CREATE TABLE public.ad_postbacks_stored (
  app_id text NOT NULL,
  day date NOT NULL,
  verified integer NOT NULL,
  unverified integer NOT NULL,
  CONSTRAINT ad_postbacks_stored_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT ad_postbacks_stored_pkey PRIMARY KEY (app_id)
);

CREATE TABLE public.apps (
  id text NOT NULL,
  organization_id text NOT NULL,
  name text NOT NULL,
  host text NOT NULL,
  ios jsonb,
  android jsonb,
  fallback_url text,
  allowed_destination_hosts text[] NOT NULL DEFAULT '{}'::text[],
  settings jsonb NOT NULL,
  api_key_ciphertext text NOT NULL,
  api_key_hash bytea NOT NULL,
  api_key_preview text NOT NULL,
  version bigint NOT NULL DEFAULT 1,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  deleted_at timestamp with time zone,
  host_verified_at timestamp with time zone,
  pages jsonb,
  CONSTRAINT apps_host_check CHECK (((host = lower(host)) AND ((char_length(host) >= 1) AND (char_length(host) <= 253)))),
  CONSTRAINT apps_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
  CONSTRAINT apps_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT apps_pkey PRIMARY KEY (id)
);

CREATE TABLE public.audit_log (
  id bigint NOT NULL,
  organization_id text NOT NULL,
  at timestamp with time zone NOT NULL,
  actor_id text NOT NULL,
  actor_name text NOT NULL,
  action text NOT NULL,
  target_id text NOT NULL,
  fields text[] NOT NULL,
  address text NOT NULL,
  request_id text NOT NULL,
  target_ids text[],
  stored_at timestamp with time zone DEFAULT now(),
  public_id uuid NOT NULL DEFAULT gen_random_uuid(),
  CONSTRAINT audit_log_pkey PRIMARY KEY (id)
);

CREATE TABLE public.browser_sessions (
  id text NOT NULL,
  user_id text NOT NULL,
  token_hash bytea NOT NULL,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  organization_id text,
  CONSTRAINT browser_sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE SET NULL,
  CONSTRAINT browser_sessions_pkey PRIMARY KEY (id),
  CONSTRAINT browser_sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.campaign_costs (
  organization_id text NOT NULL,
  day date NOT NULL,
  campaign text NOT NULL,
  currency text NOT NULL,
  amount numeric(38,9) NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT campaign_costs_amount_check CHECK ((amount > (0)::numeric)),
  CONSTRAINT campaign_costs_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  CONSTRAINT campaign_costs_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT campaign_costs_pkey PRIMARY KEY (organization_id, day, campaign, currency)
);

CREATE TABLE public.certificate_hosts (
  host text NOT NULL,
  organization_id text NOT NULL,
  is_own boolean NOT NULL,
  asked_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT certificate_hosts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT certificate_hosts_pkey PRIMARY KEY (host)
);

CREATE TABLE public.claims (
  click_id text NOT NULL,
  app_id text NOT NULL,
  device text NOT NULL,
  match_id text NOT NULL,
  answer text NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  is_first boolean NOT NULL DEFAULT true,
  is_open_due boolean NOT NULL DEFAULT false,
  CONSTRAINT claims_pkey PRIMARY KEY (click_id)
);

CREATE TABLE public.click_holders (
  holder text NOT NULL,
  machine text NOT NULL,
  instance text NOT NULL,
  reported_at timestamp with time zone NOT NULL,
  gone_at timestamp with time zone,
  CONSTRAINT click_holders_pkey PRIMARY KEY (holder)
);

CREATE TABLE public.click_shares (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  link_id text NOT NULL,
  holder text NOT NULL,
  granted bigint NOT NULL,
  returned bigint NOT NULL,
  used bigint NOT NULL,
  is_given_up boolean NOT NULL DEFAULT false,
  is_wanted boolean NOT NULL DEFAULT false,
  CONSTRAINT click_shares_pkey PRIMARY KEY (link_id, holder)
);

CREATE TABLE public.device_aliases (
  app_id text NOT NULL,
  id text NOT NULL,
  previous_id text NOT NULL,
  made_at timestamp with time zone NOT NULL,
  CONSTRAINT device_aliases_pkey PRIMARY KEY (app_id, id, previous_id)
);

CREATE TABLE public.exchange_rates (
  day date NOT NULL,
  currency text NOT NULL,
  rate numeric(38,15) NOT NULL,
  CONSTRAINT exchange_rates_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  CONSTRAINT exchange_rates_pkey PRIMARY KEY (day, currency),
  CONSTRAINT exchange_rates_rate_check CHECK ((rate > (0)::numeric))
);

CREATE TABLE public.host_checks (
  app_id text NOT NULL,
  organization_id text NOT NULL,
  host text NOT NULL,
  claimed_at timestamp with time zone NOT NULL DEFAULT now(),
  due_at timestamp with time zone NOT NULL DEFAULT now(),
  checked_at timestamp with time zone,
  problem text,
  CONSTRAINT host_checks_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT host_checks_pkey PRIMARY KEY (app_id),
  CONSTRAINT host_checks_problem_check CHECK ((problem = ANY (ARRAY['record_missing'::text, 'record_differs'::text, 'dns_unavailable'::text, 'taken'::text])))
);

CREATE TABLE public.hourly_audits (
  hour bigint NOT NULL,
  owner text NOT NULL,
  claimed_until timestamp with time zone NOT NULL,
  figures jsonb,
  failures jsonb NOT NULL DEFAULT '[]'::jsonb,
  CONSTRAINT hourly_audits_pkey PRIMARY KEY (hour)
);

CREATE TABLE public.idempotency_keys (
  caller text NOT NULL,
  key text NOT NULL,
  fingerprint bytea NOT NULL,
  locked_until timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  answer text,
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (caller, key)
);

CREATE TABLE public.import_codes (
  import_id text NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  code text NOT NULL,
  number integer NOT NULL,
  is_external_id boolean NOT NULL DEFAULT false,
  CONSTRAINT import_codes_import_id_fkey FOREIGN KEY (import_id) REFERENCES imports(id) ON DELETE CASCADE,
  CONSTRAINT import_codes_pkey PRIMARY KEY (import_id, code, is_external_id)
);

CREATE TABLE public.import_parts (
  import_id text NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  number integer NOT NULL,
  bytes bytea NOT NULL,
  CONSTRAINT import_parts_import_id_fkey FOREIGN KEY (import_id) REFERENCES imports(id) ON DELETE CASCADE,
  CONSTRAINT import_parts_pkey PRIMARY KEY (import_id, number)
);

CREATE TABLE public.import_rows (
  import_id text NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  number integer NOT NULL,
  line integer NOT NULL,
  outcome text NOT NULL,
  codes text[] NOT NULL,
  field text,
  reason text,
  message text,
  link jsonb,
  link_id text,
  stored_at timestamp with time zone,
  result text,
  CONSTRAINT import_rows_import_id_fkey FOREIGN KEY (import_id) REFERENCES imports(id) ON DELETE CASCADE,
  CONSTRAINT import_rows_outcome_check CHECK ((outcome = ANY (ARRAY['new'::text, 'same'::text, 'conflict'::text, 'unsupported'::text]))),
  CONSTRAINT import_rows_pkey PRIMARY KEY (import_id, number),
  CONSTRAINT import_rows_result_check CHECK ((result = ANY (ARRAY['created'::text, 'conflict'::text, 'removed'::text, 'kept'::text])))
);

CREATE TABLE public.imports (
  id text NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  source text NOT NULL,
  options jsonb NOT NULL,
  state text NOT NULL DEFAULT 'uploading'::text,
  problem text,
  created_by text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  bytes bigint NOT NULL DEFAULT 0,
  parts integer NOT NULL DEFAULT 0,
  counts jsonb NOT NULL DEFAULT '{}'::jsonb,
  bytes_read bigint NOT NULL DEFAULT 0,
  lines_read integer NOT NULL DEFAULT 0,
  rows_read integer NOT NULL DEFAULT 0,
  layout jsonb,
  rows_done integer NOT NULL DEFAULT 0,
  worker text,
  worker_until timestamp with time zone,
  branch_key_ciphertext text,
  stored_at timestamp with time zone DEFAULT now(),
  CONSTRAINT imports_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id),
  CONSTRAINT imports_check CHECK (((branch_key_ciphertext IS NULL) OR (state = ANY (ARRAY['uploading'::text, 'checking'::text])))),
  CONSTRAINT imports_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT imports_pkey PRIMARY KEY (id),
  CONSTRAINT imports_state_check CHECK ((state = ANY (ARRAY['uploading'::text, 'checking'::text, 'checked'::text, 'failed'::text, 'importing'::text, 'imported'::text, 'undoing'::text, 'undone'::text])))
);

CREATE TABLE public.install_answers (
  app_id text NOT NULL,
  install_id text NOT NULL,
  click_id text,
  answer jsonb NOT NULL,
  record text,
  created_at timestamp with time zone NOT NULL,
  is_reinstall boolean NOT NULL DEFAULT false,
  stored_at timestamp with time zone DEFAULT now(),
  CONSTRAINT install_answers_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id),
  CONSTRAINT install_answers_pkey PRIMARY KEY (app_id, install_id)
);

CREATE TABLE public.install_names (
  app_id text NOT NULL,
  name text NOT NULL,
  install_id text NOT NULL,
  CONSTRAINT install_names_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id),
  CONSTRAINT install_names_pkey PRIMARY KEY (app_id, name)
);

CREATE TABLE public.installation (
  only_row boolean NOT NULL DEFAULT true,
  store text NOT NULL DEFAULT ''::text,
  secret_check text,
  outbound_held_since timestamp with time zone,
  outbound_resumed_at timestamp with time zone,
  CONSTRAINT installation_only_row_check CHECK (only_row),
  CONSTRAINT installation_pkey PRIMARY KEY (only_row)
);

CREATE TABLE public.invitations (
  id text NOT NULL,
  organization_id text NOT NULL,
  email text NOT NULL,
  role text NOT NULL,
  token_hash bytea NOT NULL,
  invited_by text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  is_by_mail boolean NOT NULL DEFAULT false,
  CONSTRAINT invitations_email_check CHECK ((email = lower((email COLLATE "C")))),
  CONSTRAINT invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES users(id) ON DELETE CASCADE,
  CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT invitations_pkey PRIMARY KEY (id),
  CONSTRAINT invitations_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text, 'viewer'::text])))
);

CREATE TABLE public.link_codes (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  code text NOT NULL,
  link_id text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT link_codes_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id),
  CONSTRAINT link_codes_code_check CHECK (((char_length(code) >= 1) AND (char_length(code) <= 190))),
  CONSTRAINT link_codes_link_id_fkey FOREIGN KEY (link_id) REFERENCES links(id) ON DELETE CASCADE,
  CONSTRAINT link_codes_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT link_codes_pkey PRIMARY KEY (app_id, code)
);

CREATE TABLE public.link_counts (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  active bigint NOT NULL DEFAULT 0,
  archived bigint NOT NULL DEFAULT 0,
  CONSTRAINT link_counts_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT link_counts_pkey PRIMARY KEY (app_id)
);

CREATE TABLE public.link_passwords (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  link_id text NOT NULL,
  hash text NOT NULL,
  changed_at timestamp with time zone NOT NULL,
  CONSTRAINT link_passwords_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id),
  CONSTRAINT link_passwords_link_id_fkey FOREIGN KEY (link_id) REFERENCES links(id) ON DELETE CASCADE,
  CONSTRAINT link_passwords_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT link_passwords_pkey PRIMARY KEY (link_id)
);

CREATE TABLE public.link_tags (
  organization_id text NOT NULL,
  tag text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  link_id text NOT NULL,
  app_id text NOT NULL,
  archived boolean NOT NULL,
  CONSTRAINT link_tags_link_id_fkey FOREIGN KEY (link_id) REFERENCES links(id) ON DELETE CASCADE,
  CONSTRAINT link_tags_pkey PRIMARY KEY (organization_id, tag, created_at, link_id) INCLUDE (app_id, archived)
);

CREATE TABLE public.links (
  id text NOT NULL,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  short_code text NOT NULL,
  path text NOT NULL,
  campaign text,
  source text NOT NULL,
  archived boolean NOT NULL DEFAULT false,
  title text,
  data jsonb NOT NULL DEFAULT '{}'::jsonb,
  tags text[] NOT NULL DEFAULT '{}'::text[],
  external_id text,
  ios_url text,
  android_url text,
  fallback_url text,
  utm_source text,
  utm_medium text,
  utm_campaign text,
  utm_term text,
  utm_content text,
  og_title text,
  og_description text,
  og_image_url text,
  expires_at timestamp with time zone,
  expired_url text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  deleted_at timestamp with time zone,
  tap_page text,
  clicks_before bigint,
  rules jsonb,
  has_password boolean NOT NULL DEFAULT false,
  max_clicks integer,
  CONSTRAINT links_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id),
  CONSTRAINT links_clicks_before_check CHECK ((clicks_before >= 0)),
  CONSTRAINT links_max_clicks_check CHECK ((max_clicks > 0)),
  CONSTRAINT links_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT links_pkey PRIMARY KEY (id),
  CONSTRAINT links_short_code_check CHECK (((char_length(short_code) >= 1) AND (char_length(short_code) <= 190))),
  CONSTRAINT links_source_check CHECK ((source = ANY (ARRAY['dashboard'::text, 'sdk'::text, 'import'::text, 'visit'::text, 'learned'::text]))),
  CONSTRAINT links_tap_page_check CHECK ((tap_page = ANY (ARRAY['off'::text, 'ios'::text, 'mobile'::text])))
);

CREATE TABLE public.long_links_made (
  app_id text NOT NULL,
  day date NOT NULL,
  made integer NOT NULL,
  CONSTRAINT long_links_made_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT long_links_made_made_check CHECK ((made > 0)),
  CONSTRAINT long_links_made_pkey PRIMARY KEY (app_id)
);

CREATE TABLE public.mails (
  id text NOT NULL,
  kind text NOT NULL,
  recipient text NOT NULL,
  sender_id text NOT NULL,
  subject_id text NOT NULL,
  content_ciphertext text,
  state text NOT NULL DEFAULT 'waiting'::text,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  failure text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  requester text NOT NULL DEFAULT ''::text,
  CONSTRAINT mails_check CHECK (((state = 'waiting'::text) = (content_ciphertext IS NOT NULL))),
  CONSTRAINT mails_kind_check CHECK ((kind = ANY (ARRAY['invitation'::text, 'password_reset'::text]))),
  CONSTRAINT mails_pkey PRIMARY KEY (id),
  CONSTRAINT mails_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'sent'::text, 'failed'::text])))
);

CREATE TABLE public.memberships (
  user_id text NOT NULL,
  organization_id text NOT NULL,
  role text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT memberships_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  CONSTRAINT memberships_pkey PRIMARY KEY (user_id, organization_id),
  CONSTRAINT memberships_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'member'::text, 'viewer'::text]))),
  CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.oauth_states (
  state_hash bytea NOT NULL,
  provider text NOT NULL,
  verifier text NOT NULL,
  redirect_uri text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  binding_hash bytea,
  user_id text,
  code_hash bytea,
  CONSTRAINT oauth_states_pkey PRIMARY KEY (state_hash),
  CONSTRAINT oauth_states_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.organizations (
  id text NOT NULL,
  name text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deleted_at timestamp with time zone,
  requires_totp boolean NOT NULL DEFAULT false,
  CONSTRAINT organizations_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
  CONSTRAINT organizations_pkey PRIMARY KEY (id)
);

CREATE TABLE public.orphan_visits (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  day date NOT NULL,
  short_code text NOT NULL,
  visits bigint NOT NULL,
  last_at timestamp with time zone NOT NULL,
  CONSTRAINT orphan_visits_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT orphan_visits_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT orphan_visits_pkey PRIMARY KEY (app_id, day, short_code),
  CONSTRAINT orphan_visits_short_code_check CHECK ((char_length(short_code) <= 190)),
  CONSTRAINT orphan_visits_visits_check CHECK ((visits > 0))
);

CREATE TABLE public.outbox (
  id bigint NOT NULL,
  kind text NOT NULL,
  host text NOT NULL,
  short_code text NOT NULL,
  changed_at timestamp with time zone NOT NULL DEFAULT now(),
  app_id text,
  version bigint,
  api_key_hash bytea,
  CONSTRAINT outbox_kind_check CHECK ((kind = ANY (ARRAY['link'::text, 'app'::text]))),
  CONSTRAINT outbox_pkey PRIMARY KEY (id)
);

CREATE TABLE public.password_resets (
  id text NOT NULL,
  user_id text NOT NULL,
  token_hash bytea NOT NULL,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT password_resets_pkey PRIMARY KEY (id),
  CONSTRAINT password_resets_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.pg_migrations (
  id integer NOT NULL DEFAULT nextval('pg_migrations_id_seq'::regclass),
  name character varying(255) NOT NULL,
  run_on timestamp without time zone NOT NULL,
  CONSTRAINT pg_migrations_pkey PRIMARY KEY (id)
);

CREATE TABLE public.ready_migrations (
  name text NOT NULL,
  CONSTRAINT ready_migrations_pkey PRIMARY KEY (name)
);

CREATE TABLE public.recovery_codes (
  user_id text NOT NULL,
  code_hash bytea NOT NULL,
  CONSTRAINT recovery_codes_pkey PRIMARY KEY (user_id, code_hash),
  CONSTRAINT recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.refresh_tokens (
  id text NOT NULL,
  user_id text NOT NULL,
  family_id text NOT NULL,
  token_hash bytea NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  replaced_by text,
  CONSTRAINT refresh_tokens_pkey PRIMARY KEY (id),
  CONSTRAINT refresh_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.released_hosts (
  host text NOT NULL,
  organization_id text NOT NULL,
  released_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT released_hosts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT released_hosts_pkey PRIMARY KEY (host, organization_id)
);

CREATE TABLE public.saved_views (
  id text NOT NULL,
  organization_id text NOT NULL,
  name text NOT NULL,
  query jsonb NOT NULL,
  created_by text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT saved_views_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT saved_views_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT saved_views_pkey PRIMARY KEY (id)
);

CREATE TABLE public.sdk_links_made (
  app_id text NOT NULL,
  day date NOT NULL,
  made integer NOT NULL,
  CONSTRAINT sdk_links_made_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT sdk_links_made_made_check CHECK ((made > 0)),
  CONSTRAINT sdk_links_made_pkey PRIMARY KEY (app_id)
);

CREATE TABLE public.server_keys (
  id text NOT NULL,
  organization_id text NOT NULL,
  name text NOT NULL,
  key_hash bytea NOT NULL,
  key_preview text NOT NULL,
  scopes text[] NOT NULL,
  app_ids text[],
  created_by text,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  CONSTRAINT server_keys_app_ids_check CHECK ((cardinality(app_ids) > 0)),
  CONSTRAINT server_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT server_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT server_keys_pkey PRIMARY KEY (id),
  CONSTRAINT server_keys_scopes_check CHECK ((cardinality(scopes) > 0))
);

CREATE TABLE public.shared_pages (
  id text NOT NULL,
  organization_id text NOT NULL,
  link_id text,
  campaign text,
  name text NOT NULL,
  token_hash bytea NOT NULL,
  password_hash text,
  shows_revenue boolean NOT NULL,
  created_by text,
  created_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone,
  CONSTRAINT shared_pages_check CHECK (((link_id IS NULL) <> (campaign IS NULL))),
  CONSTRAINT shared_pages_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT shared_pages_link_id_fkey FOREIGN KEY (link_id) REFERENCES links(id) ON DELETE CASCADE,
  CONSTRAINT shared_pages_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT shared_pages_pkey PRIMARY KEY (id)
);

CREATE TABLE public.unlearned_codes (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  short_code text NOT NULL,
  reason text NOT NULL,
  detail text,
  asks integer NOT NULL,
  last_at timestamp with time zone NOT NULL,
  CONSTRAINT unlearned_codes_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT unlearned_codes_asks_check CHECK ((asks > 0)),
  CONSTRAINT unlearned_codes_detail_check CHECK ((char_length(detail) <= 253)),
  CONSTRAINT unlearned_codes_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT unlearned_codes_pkey PRIMARY KEY (app_id, short_code),
  CONSTRAINT unlearned_codes_reason_check CHECK ((char_length(reason) <= 40)),
  CONSTRAINT unlearned_codes_short_code_check CHECK ((char_length(short_code) <= 190))
);

CREATE TABLE public.unlearned_counts (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  day date NOT NULL,
  reason text NOT NULL,
  asks bigint NOT NULL,
  CONSTRAINT unlearned_counts_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT unlearned_counts_asks_check CHECK ((asks > 0)),
  CONSTRAINT unlearned_counts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT unlearned_counts_pkey PRIMARY KEY (app_id, day, reason),
  CONSTRAINT unlearned_counts_reason_check CHECK ((char_length(reason) <= 40))
);

CREATE TABLE public.user_identities (
  provider text NOT NULL,
  subject text NOT NULL,
  user_id text NOT NULL,
  email text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  last_login_at timestamp with time zone NOT NULL,
  CONSTRAINT user_identities_pkey PRIMARY KEY (provider, subject),
  CONSTRAINT user_identities_subject_check CHECK (((char_length(subject) >= 1) AND (char_length(subject) <= 255))),
  CONSTRAINT user_identities_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.user_totp (
  user_id text NOT NULL,
  secret_ciphertext text NOT NULL,
  confirmed_at timestamp with time zone,
  last_step bigint NOT NULL DEFAULT 0,
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT user_totp_pkey PRIMARY KEY (user_id),
  CONSTRAINT user_totp_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

CREATE TABLE public.users (
  id text NOT NULL,
  email text NOT NULL,
  name text NOT NULL DEFAULT ''::text,
  password_hash text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deleted_at timestamp with time zone,
  disabled_at timestamp with time zone,
  not_before timestamp with time zone,
  unverified_since timestamp with time zone,
  CONSTRAINT users_email_check CHECK (((email = lower((email COLLATE "C"))) AND ((char_length(email) >= 3) AND (char_length(email) <= 320)))),
  CONSTRAINT users_name_check CHECK ((char_length(name) <= 200)),
  CONSTRAINT users_pkey PRIMARY KEY (id)
);

CREATE TABLE public.utm_templates (
  id text NOT NULL,
  organization_id text NOT NULL,
  app_id text,
  name text NOT NULL,
  utm_source text,
  utm_medium text,
  utm_campaign text,
  utm_term text,
  utm_content text,
  created_by text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  CONSTRAINT utm_templates_app_id_fkey FOREIGN KEY (app_id) REFERENCES apps(id) ON DELETE CASCADE,
  CONSTRAINT utm_templates_check CHECK ((num_nonnulls(utm_source, utm_medium, utm_campaign, utm_term, utm_content) > 0)),
  CONSTRAINT utm_templates_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT utm_templates_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100))),
  CONSTRAINT utm_templates_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT utm_templates_pkey PRIMARY KEY (id),
  CONSTRAINT utm_templates_utm_campaign_check CHECK (((char_length(utm_campaign) >= 1) AND (char_length(utm_campaign) <= 255))),
  CONSTRAINT utm_templates_utm_content_check CHECK (((char_length(utm_content) >= 1) AND (char_length(utm_content) <= 255))),
  CONSTRAINT utm_templates_utm_medium_check CHECK (((char_length(utm_medium) >= 1) AND (char_length(utm_medium) <= 255))),
  CONSTRAINT utm_templates_utm_source_check CHECK (((char_length(utm_source) >= 1) AND (char_length(utm_source) <= 255))),
  CONSTRAINT utm_templates_utm_term_check CHECK (((char_length(utm_term) >= 1) AND (char_length(utm_term) <= 255)))
);

CREATE TABLE public.webhook_attempts (
  id bigint NOT NULL,
  endpoint_id text NOT NULL,
  organization_id text NOT NULL,
  message_id text NOT NULL,
  type text NOT NULL,
  url text NOT NULL,
  attempted_at timestamp with time zone NOT NULL,
  duration_ms integer NOT NULL,
  outcome text NOT NULL,
  http_status integer,
  answer text NOT NULL DEFAULT ''::text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT webhook_attempts_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE,
  CONSTRAINT webhook_attempts_pkey PRIMARY KEY (id)
);

CREATE TABLE public.webhook_batches (
  log_partition integer NOT NULL,
  batch_no bigint NOT NULL,
  batch_no_to bigint NOT NULL,
  parts jsonb NOT NULL,
  owed_at timestamp with time zone NOT NULL DEFAULT now(),
  due_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT webhook_batches_pkey PRIMARY KEY (log_partition, batch_no)
);

CREATE TABLE public.webhook_endpoints (
  id text NOT NULL,
  organization_id text NOT NULL,
  url text NOT NULL,
  description text NOT NULL DEFAULT ''::text,
  events text[] NOT NULL,
  app_ids text[],
  secret_ciphertext text,
  previous_secret_ciphertext text,
  previous_secret_until timestamp with time zone,
  created_by text,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  failing_since timestamp with time zone,
  disabled_at timestamp with time zone,
  disabled_reason text,
  event_names text[],
  postback_method text,
  postback_body text,
  campaigns text[],
  CONSTRAINT webhook_endpoints_app_ids_check CHECK ((cardinality(app_ids) > 0)),
  CONSTRAINT webhook_endpoints_campaigns_check CHECK ((cardinality(campaigns) > 0)),
  CONSTRAINT webhook_endpoints_check CHECK (((disabled_at IS NULL) = (disabled_reason IS NULL))),
  CONSTRAINT webhook_endpoints_check1 CHECK (((previous_secret_ciphertext IS NULL) = (previous_secret_until IS NULL))),
  CONSTRAINT webhook_endpoints_check2 CHECK (((secret_ciphertext IS NULL) = (postback_method IS NOT NULL))),
  CONSTRAINT webhook_endpoints_check3 CHECK (((postback_method IS NOT NULL) OR ((postback_body IS NULL) AND (campaigns IS NULL)))),
  CONSTRAINT webhook_endpoints_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  CONSTRAINT webhook_endpoints_description_check CHECK ((char_length(description) <= 300)),
  CONSTRAINT webhook_endpoints_disabled_reason_check CHECK ((disabled_reason = ANY (ARRAY['requested'::text, 'gone'::text, 'failing'::text, 'backlog'::text]))),
  CONSTRAINT webhook_endpoints_event_names_check CHECK ((cardinality(event_names) > 0)),
  CONSTRAINT webhook_endpoints_events_check CHECK ((cardinality(events) > 0)),
  CONSTRAINT webhook_endpoints_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (id),
  CONSTRAINT webhook_endpoints_postback_body_check CHECK ((char_length(postback_body) <= 2048)),
  CONSTRAINT webhook_endpoints_postback_method_check CHECK ((postback_method = ANY (ARRAY['GET'::text, 'POST'::text]))),
  CONSTRAINT webhook_endpoints_url_check CHECK ((char_length(url) <= 2048))
);

CREATE TABLE public.webhook_messages (
  id text NOT NULL,
  endpoint_id text NOT NULL,
  organization_id text NOT NULL,
  type text NOT NULL,
  occurred_at timestamp with time zone NOT NULL,
  data jsonb NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  status text NOT NULL DEFAULT 'pending'::text,
  tries integer NOT NULL DEFAULT 0,
  due_at timestamp with time zone NOT NULL DEFAULT now(),
  lease text,
  replayed_at timestamp with time zone,
  CONSTRAINT webhook_messages_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE,
  CONSTRAINT webhook_messages_pkey PRIMARY KEY (id),
  CONSTRAINT webhook_messages_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);

CREATE UNIQUE INDEX batch_number ON ingest.batch USING btree (partition, batch_no) WHERE (batch_no > 0);

CREATE INDEX batch_partition ON ingest.batch USING btree (partition);

CREATE INDEX lost_frames_noted_at ON ingest.lost_frames USING btree (noted_at);

CREATE INDEX ad_postbacks_newest ON public.ad_postbacks USING btree (app_id, received_at, id);

CREATE INDEX ad_postbacks_oldest ON public.ad_postbacks USING btree (received_at);

CREATE UNIQUE INDEX apps_api_key_hash_key ON public.apps USING btree (api_key_hash);

CREATE INDEX apps_by_organization ON public.apps USING btree (organization_id, created_at DESC, id DESC) WHERE (deleted_at IS NULL);

CREATE INDEX apps_host_claimed ON public.apps USING btree (host) WHERE ((deleted_at IS NULL) AND (host_verified_at IS NULL));

CREATE UNIQUE INDEX apps_host_key ON public.apps USING btree (host) WHERE ((deleted_at IS NULL) AND (host_verified_at IS NOT NULL));

CREATE INDEX apps_host_of_deleted ON public.apps USING btree (host) WHERE (deleted_at IS NOT NULL);

CREATE INDEX audit_log_organization ON public.audit_log USING btree (organization_id, id);

CREATE INDEX audit_log_targets ON public.audit_log USING gin (target_ids) WHERE (target_ids IS NOT NULL);

CREATE INDEX audit_log_time ON public.audit_log USING btree (at);

CREATE INDEX browser_sessions_expiry ON public.browser_sessions USING btree (expires_at);

CREATE INDEX browser_sessions_organization ON public.browser_sessions USING btree (organization_id) WHERE (organization_id IS NOT NULL);

CREATE UNIQUE INDEX browser_sessions_token_hash_key ON public.browser_sessions USING btree (token_hash);

CREATE INDEX browser_sessions_user ON public.browser_sessions USING btree (user_id, created_at);

CREATE INDEX certificate_hosts_organization ON public.certificate_hosts USING btree (organization_id, asked_at);

CREATE UNIQUE INDEX claims_device_key ON public.claims USING btree (app_id, device) WHERE ((device <> ''::text) AND is_first);

CREATE INDEX claims_expires_at ON public.claims USING btree (expires_at);

CREATE INDEX claims_match_id ON public.claims USING btree (match_id);

CREATE INDEX click_holders_machine ON public.click_holders USING btree (machine, instance);

CREATE INDEX click_shares_holder ON public.click_shares USING btree (holder);

CREATE INDEX device_aliases_made_at ON public.device_aliases USING btree (made_at);

CREATE INDEX device_aliases_previous ON public.device_aliases USING btree (app_id, previous_id);

CREATE INDEX host_checks_due ON public.host_checks USING btree (due_at);

CREATE INDEX idempotency_keys_expiry ON public.idempotency_keys USING btree (expires_at);

CREATE INDEX import_rows_link ON public.import_rows USING btree (link_id) WHERE (link_id IS NOT NULL);

CREATE INDEX import_rows_outcome ON public.import_rows USING btree (import_id, outcome, number);

CREATE INDEX imports_by_age ON public.imports USING btree (updated_at);

CREATE INDEX imports_by_organization ON public.imports USING btree (organization_id, created_at DESC, id DESC);

CREATE INDEX imports_due ON public.imports USING btree (updated_at) WHERE (state = ANY (ARRAY['checking'::text, 'importing'::text, 'undoing'::text]));

CREATE INDEX install_answers_by_time ON public.install_answers USING btree (created_at);

CREATE UNIQUE INDEX install_answers_click_id_key ON public.install_answers USING btree (click_id) WHERE (click_id IS NOT NULL);

CREATE INDEX install_names_by_install ON public.install_names USING btree (app_id, install_id);

CREATE UNIQUE INDEX invitations_email_key ON public.invitations USING btree (organization_id, email);

CREATE INDEX invitations_expiry ON public.invitations USING btree (expires_at);

CREATE INDEX invitations_inviter ON public.invitations USING btree (invited_by);

CREATE UNIQUE INDEX invitations_token_hash_key ON public.invitations USING btree (token_hash);

CREATE INDEX link_codes_link ON public.link_codes USING btree (link_id);

CREATE INDEX link_counts_organization ON public.link_counts USING btree (organization_id);

CREATE INDEX link_tags_link ON public.link_tags USING btree (link_id);

CREATE INDEX links_by_app ON public.links USING btree (organization_id, app_id, created_at DESC, id DESC) INCLUDE (archived) WHERE (deleted_at IS NULL);

CREATE INDEX links_by_campaign ON public.links USING btree (organization_id, campaign, created_at DESC, id DESC) INCLUDE (app_id, archived) WHERE ((deleted_at IS NULL) AND (campaign IS NOT NULL));

CREATE INDEX links_by_organization ON public.links USING btree (organization_id, created_at DESC, id DESC) INCLUDE (app_id, archived) WHERE (deleted_at IS NULL);

CREATE UNIQUE INDEX links_external_id_key ON public.links USING btree (app_id, external_id) WHERE ((deleted_at IS NULL) AND (external_id IS NOT NULL));

CREATE UNIQUE INDEX links_short_code_key ON public.links USING btree (app_id, short_code);

CREATE INDEX links_text ON public.links USING gin (organization_id, signpost_link_text(short_code, path, title, campaign) gin_trgm_ops) WHERE (deleted_at IS NULL);

CREATE INDEX mails_age ON public.mails USING btree (created_at);

CREATE INDEX mails_due ON public.mails USING btree (due_at) WHERE (state = 'waiting'::text);

CREATE INDEX mails_recipient ON public.mails USING btree (recipient, created_at);

CREATE INDEX mails_sender ON public.mails USING btree (sender_id, created_at);

CREATE INDEX mails_subject ON public.mails USING btree (subject_id);

CREATE INDEX memberships_organization ON public.memberships USING btree (organization_id);

CREATE INDEX oauth_states_expiry ON public.oauth_states USING btree (expires_at);

CREATE INDEX orphan_visits_day ON public.orphan_visits USING btree (day);

CREATE INDEX orphan_visits_organization ON public.orphan_visits USING btree (organization_id, day);

CREATE INDEX password_resets_expiry ON public.password_resets USING btree (expires_at);

CREATE UNIQUE INDEX password_resets_token_hash_key ON public.password_resets USING btree (token_hash);

CREATE INDEX password_resets_user ON public.password_resets USING btree (user_id);

CREATE INDEX refresh_tokens_expiry ON public.refresh_tokens USING btree (expires_at);

CREATE INDEX refresh_tokens_family ON public.refresh_tokens USING btree (family_id);

CREATE UNIQUE INDEX refresh_tokens_token_hash_key ON public.refresh_tokens USING btree (token_hash);

CREATE INDEX refresh_tokens_user ON public.refresh_tokens USING btree (user_id);

CREATE INDEX saved_views_creator ON public.saved_views USING btree (created_by);

CREATE INDEX saved_views_organization ON public.saved_views USING btree (organization_id, name, id);

CREATE INDEX server_keys_creator ON public.server_keys USING btree (created_by);

CREATE UNIQUE INDEX server_keys_hash_key ON public.server_keys USING btree (key_hash);

CREATE INDEX server_keys_organization ON public.server_keys USING btree (organization_id, created_at);

CREATE INDEX shared_pages_creator ON public.shared_pages USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE INDEX shared_pages_link ON public.shared_pages USING btree (link_id) WHERE (link_id IS NOT NULL);

CREATE INDEX shared_pages_organization ON public.shared_pages USING btree (organization_id, created_at DESC, id DESC);

CREATE UNIQUE INDEX shared_pages_token_hash_key ON public.shared_pages USING btree (token_hash);

CREATE INDEX unlearned_codes_age ON public.unlearned_codes USING btree (app_id, last_at);

CREATE UNIQUE INDEX user_identities_user_key ON public.user_identities USING btree (user_id, provider);

CREATE UNIQUE INDEX users_email_key ON public.users USING btree (email) WHERE (deleted_at IS NULL);

CREATE INDEX utm_templates_app ON public.utm_templates USING btree (app_id) WHERE (app_id IS NOT NULL);

CREATE INDEX utm_templates_creator ON public.utm_templates USING btree (created_by) WHERE (created_by IS NOT NULL);

CREATE UNIQUE INDEX utm_templates_name_key ON public.utm_templates USING btree (organization_id, COALESCE(app_id, ''::text), name);

CREATE INDEX webhook_attempts_age ON public.webhook_attempts USING btree (created_at);

CREATE INDEX webhook_attempts_message ON public.webhook_attempts USING btree (message_id, id DESC);

CREATE INDEX webhook_attempts_newest ON public.webhook_attempts USING btree (endpoint_id, id DESC);

CREATE INDEX webhook_endpoints_creator ON public.webhook_endpoints USING btree (created_by);

CREATE INDEX webhook_endpoints_organization ON public.webhook_endpoints USING btree (organization_id, created_at DESC, id DESC);

CREATE INDEX webhook_messages_age ON public.webhook_messages USING btree (created_at);

CREATE INDEX webhook_messages_due ON public.webhook_messages USING btree (endpoint_id, due_at) WHERE (status = 'pending'::text);

CREATE INDEX webhook_messages_leased ON public.webhook_messages USING btree (endpoint_id) WHERE (lease IS NOT NULL);

CREATE INDEX webhook_messages_newest ON public.webhook_messages USING btree (endpoint_id, created_at DESC, id DESC);

CREATE OR REPLACE FUNCTION public.signpost_accept_invitation(hash bytea, at timestamp with time zone, account text, new_account text, full_name text, new_hash text)
 RETURNS TABLE(outcome text, joined_user text, joined_organization text, joined_role text)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  invited record;
  invitee text := account;
  is_mailed boolean;
BEGIN
  SELECT is_by_mail INTO is_mailed FROM invitations WHERE token_hash = hash FOR UPDATE;
  SELECT * INTO invited FROM signpost_invitation_of(hash, at);
  IF NOT FOUND THEN RETURN QUERY SELECT 'absent', '', '', ''; RETURN; END IF;
  IF account IS NULL THEN
    invitee := new_account;
    INSERT INTO users (id, email, name, password_hash, unverified_since)
      VALUES (new_account, invited.email, full_name, new_hash, CASE WHEN NOT is_mailed THEN now() END)
      ON CONFLICT (email) WHERE deleted_at IS NULL DO NOTHING;
    IF NOT FOUND THEN RETURN QUERY SELECT 'account_exists', '', '', ''; RETURN; END IF;
  ELSE
    PERFORM FROM users WHERE id = account AND email = invited.email AND deleted_at IS NULL AND disabled_at IS NULL;
    IF NOT FOUND THEN RETURN QUERY SELECT 'other_account', '', '', ''; RETURN; END IF;
    PERFORM FROM users WHERE id = account AND unverified_since IS NULL FOR SHARE;
    IF NOT FOUND THEN RETURN QUERY SELECT 'unverified', '', '', ''; RETURN; END IF;
  END IF;
  INSERT INTO memberships (user_id, organization_id, role) VALUES (invitee, invited.organization_id, invited.role)
    ON CONFLICT (user_id, organization_id) DO NOTHING;
  DELETE FROM invitations WHERE token_hash = hash;
  RETURN QUERY SELECT 'done', invitee, m.organization_id, m.role FROM memberships m
    WHERE m.user_id = invitee AND m.organization_id = invited.organization_id;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_analyze_imports()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET lock_timeout TO '2s'
AS $function$
BEGIN
  -- Only what statements search by: samples of JSON and arrays cost ten times as much.
  ANALYZE import_rows (import_id, organization_id, app_id, number, outcome, result, link_id), import_codes,
    links (id, organization_id, app_id, short_code, external_id, source, deleted_at), link_codes, link_tags;
EXCEPTION WHEN lock_not_available THEN
  -- A vacuum is at work on one of them, and analyzes it as well.
  NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_apps()
 RETURNS text[]
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT string_to_array(nullif(current_setting('signpost.app_ids', true), ''), ',') $function$
;

CREATE OR REPLACE FUNCTION public.signpost_begin_password_reset(reset text, address text, hash bytea, at timestamp with time zone, ends timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  DELETE FROM password_resets WHERE id IN (
    SELECT id FROM password_resets WHERE expires_at <= least(at, signpost_deletion_time()) ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED);
  INSERT INTO password_resets (id, user_id, token_hash, created_at, expires_at)
    SELECT reset, id, hash, at, ends FROM users WHERE email = address AND deleted_at IS NULL AND disabled_at IS NULL;
  RETURN FOUND;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_change_password(account text, present_hash text, new_hash text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  UPDATE users SET password_hash = new_hash
   WHERE id = account AND password_hash = present_hash AND deleted_at IS NULL AND disabled_at IS NULL;
  RETURN FOUND;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_count_links_inserted()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO link_counts AS c (organization_id, app_id, active, archived)
    SELECT organization_id, app_id, count(*) FILTER (WHERE NOT archived), count(*) FILTER (WHERE archived)
      FROM inserted WHERE deleted_at IS NULL GROUP BY organization_id, app_id ORDER BY app_id
    ON CONFLICT (app_id) DO UPDATE SET active = c.active + EXCLUDED.active, archived = c.archived + EXCLUDED.archived;
  INSERT INTO link_tags (organization_id, tag, created_at, link_id, app_id, archived)
    SELECT DISTINCT i.organization_id, t.tag, i.created_at, i.id, i.app_id, i.archived FROM inserted i CROSS JOIN LATERAL unnest(i.tags) AS t (tag)
     WHERE i.deleted_at IS NULL AND i.tags <> '{}';
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_count_links_updated()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  UPDATE link_counts c SET active = c.active + d.active, archived = c.archived + d.archived
    FROM (SELECT app_id,
                 coalesce(sum(sign) FILTER (WHERE NOT archived), 0)::bigint AS active,
                 coalesce(sum(sign) FILTER (WHERE archived), 0)::bigint AS archived
            FROM (SELECT app_id, archived, 1 AS sign FROM new_rows WHERE deleted_at IS NULL
                  UNION ALL SELECT app_id, archived, -1 FROM old_rows WHERE deleted_at IS NULL) AS changes
           GROUP BY app_id) AS d
   WHERE c.app_id = d.app_id AND (d.active <> 0 OR d.archived <> 0);
  DELETE FROM link_tags t USING old_rows o JOIN new_rows n USING (id)
   WHERE t.link_id = o.id
     AND (o.tags <> n.tags OR o.archived <> n.archived OR (o.deleted_at IS NULL) <> (n.deleted_at IS NULL));
  INSERT INTO link_tags (organization_id, tag, created_at, link_id, app_id, archived)
    SELECT DISTINCT n.organization_id, t.tag, n.created_at, n.id, n.app_id, n.archived
      FROM new_rows n JOIN old_rows o USING (id) CROSS JOIN LATERAL unnest(n.tags) AS t (tag)
     WHERE n.deleted_at IS NULL
       AND (o.tags <> n.tags OR o.archived <> n.archived OR (o.deleted_at IS NULL) <> (n.deleted_at IS NULL));
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_count_orphans(apps text[], days date[], codes text[], counts bigint[], times timestamp with time zone[], codes_max integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  -- One redirector at a time, so that none waits for another in a circle. The number is arbitrary.
  PERFORM pg_advisory_xact_lock(5310892);
  INSERT INTO orphan_visits AS o (organization_id, app_id, day, short_code, visits, last_at)
    SELECT a.organization_id, a.id, g.day, g.code, sum(g.visits), max(g.last_at)
      FROM unnest(apps, days, codes, counts, times) AS g (app, day, code, visits, last_at) JOIN apps a ON a.id = g.app
     WHERE g.day BETWEEN today - 1 AND today + 1 GROUP BY a.organization_id, a.id, g.day, g.code
    ON CONFLICT (app_id, day, short_code)
    DO UPDATE SET visits = o.visits + EXCLUDED.visits, last_at = greatest(o.last_at, EXCLUDED.last_at);
  WITH ranked AS (
    SELECT app_id, day, short_code,
           row_number() OVER (PARTITION BY app_id, day ORDER BY visits DESC, last_at DESC, short_code) AS place
      FROM orphan_visits
     WHERE short_code <> '' AND (app_id, day) IN (SELECT DISTINCT app, d FROM unnest(apps, days) AS g (app, d))
  ), gone AS (
    DELETE FROM orphan_visits o USING ranked r
     WHERE r.place > codes_max AND o.app_id = r.app_id AND o.day = r.day AND o.short_code = r.short_code
    RETURNING o.organization_id, o.app_id, o.day, o.visits, o.last_at
  )
  INSERT INTO orphan_visits AS o (organization_id, app_id, day, short_code, visits, last_at)
    SELECT organization_id, app_id, day, '', sum(visits), max(last_at) FROM gone GROUP BY organization_id, app_id, day
    ON CONFLICT (app_id, day, short_code)
    DO UPDATE SET visits = o.visits + EXCLUDED.visits, last_at = greatest(o.last_at, EXCLUDED.last_at);
  DELETE FROM orphan_visits WHERE day < (signpost_deletion_time() AT TIME ZONE 'UTC')::date - 30;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_count_sdk_link()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  INSERT INTO sdk_links_made AS m (app_id, day, made) VALUES (NEW.app_id, today, 1)
    ON CONFLICT (app_id) DO UPDATE SET day = today, made = CASE WHEN m.day = today THEN m.made + 1 ELSE 1 END
    WHERE m.day <> today OR m.made < 10000;
  IF NOT FOUND THEN
    RAISE check_violation USING CONSTRAINT = 'sdk_links_per_day', MESSAGE = 'the app has its 10000 links of today';
  END IF;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_created_links()
 RETURNS text[]
 LANGUAGE sql
 STABLE
 SET search_path TO 'public'
AS $function$ SELECT coalesce(string_to_array(current_setting('signpost.created_links', true), ' '), '{}') $function$
;

CREATE OR REPLACE FUNCTION public.signpost_delete_utm_templates()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  DELETE FROM utm_templates WHERE app_id = NEW.id;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_deletion_time()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ SELECT least(now(), reached) FROM ingest.deletion_clock $function$
;

CREATE OR REPLACE FUNCTION public.signpost_drop_click_shares()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  DELETE FROM click_shares WHERE link_id = OLD.id;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_end_password_resets()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  DELETE FROM password_resets WHERE user_id = NEW.id;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_enter_clicks(p_holder text, p_machine text, p_instance text, p_incarnation text, p_leaves boolean)
 RETURNS text
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT count(*) FROM signpost_report_clicks(p_holder, p_machine, p_instance, p_leaves, '{}', '{}', '{}', '{}');
  SELECT 'any'
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_forget_mail()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  UPDATE mails SET state = 'failed', failure = 'withdrawn', content_ciphertext = NULL
   WHERE subject_id = OLD.id AND state = 'waiting';
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_grant_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint, p_share_max integer, p_waiting integer)
 RETURNS TABLE(is_granted boolean, granted bigint, returned bigint, used bigint, open_elsewhere bigint)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
  link record;
  own click_shares;
  taken bigint;
  elsewhere bigint;
  lost bigint;
  redirectors bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM click_holders h WHERE h.holder = p_holder AND h.gone_at IS NULL) THEN
    RAISE EXCEPTION 'the holder % of shares of clicks has not reported', p_holder;
  END IF;
  -- One grant of a link at a time.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_link, 5310920));
  SELECT l.organization_id, l.app_id, l.max_clicks INTO link FROM links l
   WHERE l.id = p_link AND l.max_clicks IS NOT NULL AND l.deleted_at IS NULL;
  IF NOT FOUND THEN
    RETURN QUERY SELECT false, p_granted, p_returned, p_used, 0::bigint;
    RETURN;
  END IF;
  INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used)
    VALUES (link.organization_id, link.app_id, p_link, p_holder, p_granted, p_returned, p_used)
    ON CONFLICT (link_id, holder) DO UPDATE SET granted = greatest(s.granted, EXCLUDED.granted),
      returned = greatest(s.returned, EXCLUDED.returned), used = greatest(s.used, EXCLUDED.used)
    RETURNING s.* INTO own;
  SELECT sum(s.granted - s.returned),
         coalesce(sum(s.granted - s.returned - s.used) FILTER (WHERE s.holder <> p_holder AND NOT s.is_given_up), 0)
    INTO taken, elsewhere FROM click_shares s WHERE s.link_id = p_link;
  IF own.granted > p_granted AND own.granted - own.returned > own.used THEN
    -- An answer was lost. The limit may have been lowered since.
    lost := least(own.granted - own.returned - own.used, greatest(taken - link.max_clicks, 0));
    UPDATE click_shares s SET returned = own.returned + lost WHERE s.link_id = p_link AND s.holder = p_holder AND lost > 0;
    RETURN QUERY SELECT true, own.granted, own.returned + lost, own.used, elsewhere;
    RETURN;
  END IF;
  IF taken >= link.max_clicks THEN
    UPDATE click_shares s SET is_wanted = true
     WHERE s.link_id = p_link AND s.holder <> p_holder AND s.granted - s.returned > s.used AND NOT s.is_wanted AND NOT s.is_given_up;
    RETURN QUERY SELECT false, own.granted, own.returned, own.used, elsewhere;
    RETURN;
  END IF;
  SELECT greatest(count(*), 1) INTO redirectors FROM click_holders h WHERE h.gone_at IS NULL;
  RETURN QUERY UPDATE click_shares s
    SET granted = s.granted + least(greatest((link.max_clicks - taken) / (2 * redirectors), 1, least(p_waiting, link.max_clicks - taken)), p_share_max)
    WHERE s.link_id = p_link AND s.holder = p_holder
    RETURNING true, s.granted, s.returned, s.used, elsewhere;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_has_other_owner(member text, organization text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  SELECT EXISTS (SELECT FROM public.memberships m JOIN public.users u ON u.id = m.user_id
    WHERE m.organization_id = organization AND m.user_id <> member AND m.role = 'owner' AND u.deleted_at IS NULL AND u.disabled_at IS NULL) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_has_room(kind text, organization text, maximum integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(kind || ' ' || organization, 5310926));
  RETURN maximum > CASE kind
    WHEN 'apps' THEN (SELECT count(*) FROM apps t WHERE t.organization_id = organization AND t.deleted_at IS NULL)
    WHEN 'invitations' THEN (SELECT count(*) FROM invitations t WHERE t.organization_id = organization)
    WHEN 'postbacks' THEN (SELECT count(*) FROM webhook_endpoints t WHERE t.organization_id = organization AND t.postback_method IS NOT NULL)
    WHEN 'saved_views' THEN (SELECT count(*) FROM saved_views t WHERE t.organization_id = organization)
    WHEN 'server_keys' THEN (SELECT count(*) FROM server_keys t WHERE t.organization_id = organization)
    WHEN 'shared_pages' THEN (SELECT count(*) FROM shared_pages t WHERE t.organization_id = organization)
    WHEN 'unfinished_imports' THEN
      (SELECT count(*) FROM imports t WHERE t.organization_id = organization AND t.state NOT IN ('imported', 'undone', 'failed'))
    WHEN 'utm_templates' THEN (SELECT count(*) FROM utm_templates t WHERE t.organization_id = organization)
    WHEN 'webhooks' THEN (SELECT count(*) FROM webhook_endpoints t WHERE t.organization_id = organization AND t.postback_method IS NULL)
  END;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_hears_of(app_ids text[], endpoint text)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
 SET search_path TO 'public'
AS $function$ SELECT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = endpoint AND e.app_ids <@ signpost_hears_of.app_ids) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_host_is_taken(wanted text, mine text, app text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ SELECT EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NULL AND host_verified_at IS NOT NULL AND id IS DISTINCT FROM app)
         OR EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NULL AND host_verified_at IS NULL AND organization_id = mine AND id IS DISTINCT FROM app)
         OR EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NOT NULL AND host_verified_at IS NOT NULL AND organization_id <> mine)
         OR EXISTS (SELECT FROM released_hosts WHERE host = wanted AND organization_id <> mine) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_hosts_like(plain text, domain text, mine text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('host ' || plain, 0));
  RETURN QUERY
    SELECT o.host FROM (
      SELECT a.host FROM apps a WHERE a.organization_id <> mine AND a.host_verified_at IS NOT NULL
      UNION ALL
      SELECT r.host FROM released_hosts r WHERE r.organization_id <> mine) AS o
     WHERE o.host = plain OR (o.host LIKE 'xn--%' AND right(o.host, length(domain) + 1) = '.' || domain);
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_installation()
 RETURNS TABLE(secret_check text, outbound_held_since timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF EXISTS (SELECT FROM installation i WHERE i.store <> signpost_store()) THEN
    UPDATE installation i SET outbound_held_since = now() WHERE i.store <> '' AND i.store <> signpost_store() AND i.outbound_held_since IS NULL;
    UPDATE installation i SET store = signpost_store() WHERE i.store = '';
  END IF;
  RETURN QUERY SELECT i.secret_check, i.outbound_held_since FROM installation i;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_invitation_of(hash bytea, at timestamp with time zone)
 RETURNS TABLE(id text, organization_id text, organization_name text, email text, role text, has_account boolean)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT i.id, i.organization_id, o.name, i.email, i.role,
         i.is_by_mail AND EXISTS (SELECT FROM users u WHERE u.email = i.email AND u.deleted_at IS NULL)
    FROM invitations i JOIN organizations o ON o.id = i.organization_id AND o.deleted_at IS NULL
   WHERE i.token_hash = hash AND i.expires_at > at AND signpost_is_owner(i.invited_by, i.organization_id) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_is_live(until timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT until BETWEEN now() AND now() + interval '10 minutes' $function$
;

CREATE OR REPLACE FUNCTION public.signpost_is_message_for(app_ids text[], type text, data jsonb)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT app_ids IS NULL OR CASE type WHEN 'click.batch' THEN coalesce(nullif(data -> 'app_ids', 'null') ?| app_ids, true)
                                         WHEN 'endpoint.disabled' THEN signpost_hears_of(app_ids, data ->> 'id')
                                         ELSE coalesce(data ->> 'app_id' = ANY (app_ids), true) END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_is_owner(actor text, organization text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  SELECT EXISTS (SELECT FROM public.memberships m JOIN public.users u ON u.id = m.user_id
    WHERE m.organization_id = organization AND m.user_id = actor AND m.role = 'owner' AND u.deleted_at IS NULL AND u.disabled_at IS NULL) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_keep_code()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  SELECT signpost_stored_code(settings, NEW.short_code) INTO NEW.short_code FROM apps WHERE id = NEW.app_id FOR SHARE;
  IF EXISTS (SELECT FROM link_codes WHERE app_id = NEW.app_id AND code = NEW.short_code) THEN
    IF TG_OP = 'INSERT' THEN
      RETURN NULL;
    END IF;
    RAISE unique_violation USING CONSTRAINT = 'links_short_code_key', MESSAGE = 'another link has the code';
  END IF;
  RETURN NEW;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_keep_further_code()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  SELECT signpost_stored_code(settings, NEW.code) INTO NEW.code FROM apps WHERE id = NEW.app_id FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM links WHERE app_id = NEW.app_id AND short_code = NEW.code) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_keep_install(of_app text, first_name text, second_name text, new_install_id text, of_click text, new_answer jsonb, new_record text, at_time timestamp with time zone)
 RETURNS TABLE(is_new boolean, install_id text, answer jsonb, record text, is_reinstall boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  again boolean;
BEGIN
  INSERT INTO install_names (app_id, name, install_id) VALUES (of_app, first_name, new_install_id) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN QUERY SELECT false, a.install_id, a.answer, a.record, a.is_reinstall
      FROM install_names n JOIN install_answers a ON a.app_id = n.app_id AND a.install_id = n.install_id
     WHERE n.app_id = of_app AND n.name = first_name;
    RETURN;
  END IF;
  INSERT INTO install_names (app_id, name, install_id) VALUES (of_app, second_name, new_install_id) ON CONFLICT DO NOTHING;
  -- An install that names no device has one name.
  again := NOT FOUND AND second_name <> first_name;
  IF again THEN
    UPDATE install_names SET install_id = new_install_id WHERE app_id = of_app AND name = second_name;
  END IF;
  INSERT INTO install_answers (app_id, install_id, click_id, answer, record, created_at, is_reinstall)
    VALUES (of_app, new_install_id, of_click, new_answer, new_record, at_time, again);
  RETURN QUERY SELECT true, new_install_id, new_answer, new_record, again;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_keep_password_reset(address text, at timestamp with time zone, ends timestamp with time zone)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  UPDATE password_resets SET expires_at = least(ends, created_at + interval '1 day')
   WHERE id = (SELECT r.id FROM password_resets r JOIN users u ON u.id = r.user_id
                WHERE u.email = address AND u.deleted_at IS NULL AND u.disabled_at IS NULL AND r.expires_at > at
                ORDER BY r.created_at DESC LIMIT 1) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_keep_secret_check(p_sealed text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  UPDATE installation SET secret_check = p_sealed WHERE secret_check IS NULL
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_link_text(short_code text, path text, title text, campaign text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ SELECT lower(short_code || E'\n' || path || E'\n' || coalesce(title, '') || E'\n' || coalesce(campaign, '')) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_links_matching(pattern text)
 RETURNS TABLE(id text, organization_id text, app_id text, archived boolean, campaign text, created_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ SELECT l.id, l.organization_id, l.app_id, l.archived, l.campaign, l.created_at
       FROM unnest(signpost_organizations()) AS o (id) JOIN links l ON l.organization_id = o.id
      WHERE l.deleted_at IS NULL AND signpost_link_text(l.short_code, l.path, l.title, l.campaign) LIKE lower(pattern)
        AND ((SELECT signpost_apps()) IS NULL OR l.app_id = ANY ((SELECT signpost_apps())::text[])) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_make_long_link(for_app text, new_id text, new_code text, fields jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
  app apps%ROWTYPE;
  known record;
BEGIN
  IF new_code !~ '^fdl~[0-9a-f]{32}$' OR new_id !~ '^lnk_[0-9a-z]{26}$' OR octet_length(fields::text) > 65536 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'this is no long link';
  END IF;
  SELECT * INTO app FROM apps a WHERE a.id = for_app AND a.deleted_at IS NULL AND a.host_verified_at IS NOT NULL;
  -- The caller has checked the hosts, by the app's settings as it knows them. This is what holds.
  IF app.id IS NULL OR jsonb_typeof(app.settings #> '{firebase_links,hosts}') IS DISTINCT FROM 'array' OR EXISTS (
    SELECT FROM unnest(ARRAY[fields ->> 'ios_url', fields ->> 'android_url', fields ->> 'fallback_url']) AS u (url)
     WHERE u.url IS NOT NULL AND NOT coalesce(
       (app.settings #> '{firebase_links,hosts}') ? substring(u.url FROM '^https://([a-z0-9._-]+)(?::[0-9]{1,5})?(?:[/?#]|$)'), false)
  ) THEN
    RETURN 'off';
  END IF;
  SELECT l.deleted_at INTO known FROM links l WHERE l.app_id = for_app AND l.short_code = new_code;
  IF FOUND THEN
    RETURN CASE WHEN known.deleted_at IS NULL THEN 'known' ELSE 'deleted' END;
  END IF;
  -- The row also makes links of one app wait for each other.
  INSERT INTO long_links_made AS m (app_id, day, made) VALUES (for_app, today, 1)
    ON CONFLICT (app_id) DO UPDATE SET day = today, made = CASE WHEN m.day = today THEN m.made + 1 ELSE 1 END
    WHERE m.day <> today OR m.made < 5000;
  IF NOT FOUND THEN
    RETURN 'limit';
  END IF;
  INSERT INTO links (id, organization_id, app_id, short_code, source, created_at, updated_at, path, data, tap_page,
                     ios_url, android_url, fallback_url, og_title, og_description, og_image_url,
                     utm_source, utm_medium, utm_campaign, utm_term, utm_content)
    SELECT new_id, app.organization_id, for_app, new_code, 'visit', date_trunc('milliseconds', now()), date_trunc('milliseconds', now()), f.path, f.data, f.tap_page,
           f.ios_url, f.android_url, f.fallback_url, f.og_title, f.og_description, f.og_image_url,
           f.utm_source, f.utm_medium, f.utm_campaign, f.utm_term, f.utm_content
      FROM jsonb_to_record(fields) AS f (path text, data jsonb, tap_page text, ios_url text, android_url text, fallback_url text,
           og_title text, og_description text, og_image_url text,
           utm_source text, utm_medium text, utm_campaign text, utm_term text, utm_content text)
    ON CONFLICT DO NOTHING;
  RETURN CASE WHEN FOUND THEN 'made' ELSE 'known' END;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_may_get_certificate(asked text, own boolean, per_day integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  owner text := (SELECT organization_id FROM apps WHERE host = asked AND host_verified_at IS NOT NULL AND deleted_at IS NULL);
BEGIN
  IF owner IS NULL OR EXISTS (SELECT FROM certificate_hosts WHERE host = asked) THEN
    RETURN owner IS NOT NULL;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('certificates ' || owner, 5310926));
  DELETE FROM certificate_hosts c WHERE c.organization_id = owner AND c.asked_at < now() - interval '1 day'
    AND NOT EXISTS (SELECT FROM apps WHERE host = c.host AND host_verified_at IS NOT NULL AND deleted_at IS NULL);
  INSERT INTO certificate_hosts (host, organization_id, is_own)
    SELECT asked, owner, own
     WHERE per_day > (SELECT count(*) FROM certificate_hosts c
                       WHERE c.organization_id = owner AND c.is_own = own AND c.asked_at > now() - interval '1 day')
    ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM certificate_hosts WHERE host = asked);
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_note_app_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO outbox (kind, host, short_code, app_id, version, api_key_hash)
    SELECT DISTINCT 'app', host, '', NEW.id, NEW.version, OLD.api_key_hash FROM (VALUES (OLD.host), (NEW.host)) AS v (host);
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_note_change(organization text, actor text, operation text, target text, targets text[], names text[], client text, request text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF current_setting('role') = 'signpost_api' AND NOT coalesce(organization = ANY (signpost_organizations()), false) THEN
    RAISE EXCEPTION 'a change in organization % cannot be noted in a transaction of %', organization, signpost_organizations();
  END IF;
  INSERT INTO audit_log (organization_id, at, actor_id, actor_name, action, target_id, target_ids, fields, address, request_id)
  SELECT o.id, date_trunc('milliseconds', now()), actor,
         coalesce((SELECT email FROM users WHERE id = actor), (SELECT name FROM server_keys WHERE id = actor), ''),
         operation, target, targets, names, client, request
    FROM (SELECT organization AS id WHERE organization IS NOT NULL
          UNION ALL
          SELECT organization_id FROM memberships WHERE organization IS NULL AND user_id = actor) AS o;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_note_code_removal()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO outbox (kind, host, short_code) SELECT 'link', a.host, OLD.code FROM apps a WHERE a.id = OLD.app_id;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_note_host_claim()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF NEW.deleted_at IS NOT NULL OR NEW.host_verified_at IS NOT NULL THEN
    DELETE FROM host_checks WHERE app_id = NEW.id;
    RETURN NULL;
  END IF;
  INSERT INTO host_checks AS c (app_id, organization_id, host) VALUES (NEW.id, NEW.organization_id, NEW.host)
    ON CONFLICT (app_id) DO UPDATE SET host = EXCLUDED.host, claimed_at = now(), due_at = now(), checked_at = NULL, problem = NULL
      WHERE c.host <> EXCLUDED.host;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_note_link_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO outbox (kind, host, short_code)
    SELECT DISTINCT 'link', a.host, v.code
      FROM apps a CROSS JOIN (VALUES (OLD.short_code), (NEW.short_code)) AS v (code) WHERE a.id = NEW.app_id
     UNION
    SELECT 'link', a.host, c.code FROM apps a JOIN link_codes c ON c.link_id = NEW.id WHERE a.id = NEW.app_id;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_note_released_host()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF OLD.host_verified_at IS NOT NULL THEN
    INSERT INTO released_hosts (host, organization_id) VALUES (OLD.host, OLD.organization_id) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_open_clicks(p_holder text)
 RETURNS TABLE(link_id text, granted bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT link_id, granted FROM click_shares WHERE holder = p_holder AND granted - returned > used LIMIT 50000
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_organizations()
 RETURNS text[]
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT string_to_array(current_setting('signpost.organization_ids', true), ',') $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_batches()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF signpost_records_are_owed() THEN
    INSERT INTO webhook_batches (log_partition, batch_no, batch_no_to, parts)
      SELECT partition, batch_no, batch_no, parts FROM gone WHERE batch_no > 0
      ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_changed_codes()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  touched text[];
  created CONSTANT text[] := signpost_created_links();
BEGIN
  IF TG_OP = 'UPDATE' THEN
    touched := ARRAY(SELECT link_id FROM ((SELECT link_id, code FROM changed EXCEPT SELECT link_id, code FROM gone) UNION
                                          (SELECT link_id, code FROM gone EXCEPT SELECT link_id, code FROM changed)) AS t GROUP BY link_id);
  ELSE
    touched := ARRAY(SELECT link_id FROM changed GROUP BY link_id);
  END IF;
  IF cardinality(touched) = 0 THEN
    RETURN NULL;
  END IF;
  UPDATE webhook_messages m SET data = signpost_owed_link(l)
    FROM links l JOIN webhook_endpoints e ON e.organization_id = l.organization_id AND 'link.created' = ANY (e.events)
   WHERE l.id = ANY (touched) AND l.id = ANY (created) AND m.id = signpost_webhook_message_id(e.id, 'link.created ' || l.id);
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, gen_random_uuid()::text), e.id, e.organization_id, 'link.updated', now(), signpost_owed_link(l)
      FROM links l
      JOIN webhook_endpoints e ON e.organization_id = l.organization_id AND e.disabled_at IS NULL
       AND 'link.updated' = ANY (e.events) AND (e.app_ids IS NULL OR l.app_id = ANY (e.app_ids))
     WHERE l.id = ANY (touched) AND l.id <> ALL (created) AND l.deleted_at IS NULL;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_changed_links()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, gen_random_uuid()::text), e.id, e.organization_id, t.type, now(),
           to_jsonb(n) - 'deleted_at' || jsonb_build_object('host', a.host, 'other_codes',
             to_jsonb(ARRAY(SELECT c.code FROM link_codes c WHERE c.link_id = n.id ORDER BY c.code)))
      FROM new_rows n
      JOIN old_rows o ON o.id = n.id
     CROSS JOIN LATERAL (SELECT CASE WHEN n.deleted_at IS NULL THEN 'link.updated' ELSE 'link.deleted' END AS type) AS t
      JOIN webhook_endpoints e ON e.organization_id = n.organization_id AND e.disabled_at IS NULL
       AND t.type = ANY (e.events) AND (e.app_ids IS NULL OR n.app_id = ANY (e.app_ids))
      JOIN apps a ON a.id = n.app_id
     WHERE o.deleted_at IS NULL AND to_jsonb(o) - 'updated_at' <> to_jsonb(n) - 'updated_at';
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_created_links()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  -- Beyond 64 KiB the list is not continued; further codes of those links are announced as changes.
  IF octet_length(coalesce(current_setting('signpost.created_links', true), '')) < 65536 THEN
    PERFORM set_config('signpost.created_links',
      concat_ws(' ', nullif(current_setting('signpost.created_links', true), ''), (SELECT string_agg(id, ' ') FROM new_rows)), true);
  END IF;
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, 'link.created ' || l.id), e.id, e.organization_id, 'link.created', now(), signpost_owed_link(l)
      FROM new_rows n
      JOIN webhook_endpoints e ON e.organization_id = n.organization_id AND e.disabled_at IS NULL
       AND 'link.created' = ANY (e.events) AND (e.app_ids IS NULL OR n.app_id = ANY (e.app_ids))
      JOIN links l ON l.id = n.id
     WHERE l.deleted_at IS NULL
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_failed_audit()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, concat_ws(' ', 'audit.failed', NEW.hour, f.fault, f.app_id)), e.id, e.organization_id, 'audit.failed', now(),
           jsonb_build_object('hour', signpost_time_text(to_timestamp(NEW.hour / 1000)), 'fault', f.fault, 'app_id', f.app_id, 'count', f.count)
      FROM jsonb_to_recordset(NEW.failures) AS f (fault text, organization_id text, app_id text, count bigint)
      JOIN webhook_endpoints e ON e.disabled_at IS NULL AND 'audit.failed' = ANY (e.events)
       AND (f.organization_id IS NULL OR f.organization_id = e.organization_id)
       AND (f.app_id IS NULL OR e.app_ids IS NULL OR f.app_id = ANY (e.app_ids))
     WHERE NOT EXISTS (
             SELECT FROM jsonb_to_recordset((SELECT b.failures FROM hourly_audits b WHERE b.hour < NEW.hour AND b.figures IS NOT NULL ORDER BY b.hour DESC LIMIT 1))
                 AS k (fault text, organization_id text, app_id text)
              WHERE k.fault = f.fault AND k.organization_id IS NOT DISTINCT FROM f.organization_id AND k.app_id IS NOT DISTINCT FROM f.app_id)
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_finished_import()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, 'import.finished ' || NEW.id || ' ' || NEW.state), e.id, e.organization_id, 'import.finished', now(),
           jsonb_build_object('id', NEW.id, 'app_id', NEW.app_id, 'source', NEW.source, 'state', NEW.state, 'problem', NEW.problem,
             'rows', (SELECT jsonb_object_agg(name, coalesce(NEW.counts -> name, '0')) FROM unnest(ARRAY['new', 'same', 'conflict', 'unsupported']) AS name),
             'results', (SELECT jsonb_object_agg(name, coalesce(NEW.counts -> name, '0')) FROM unnest(ARRAY['created', 'taken', 'removed', 'kept']) AS name),
             'created_by', NEW.created_by, 'created_at', signpost_time_text(NEW.created_at))
      FROM webhook_endpoints e
     WHERE e.organization_id = NEW.organization_id AND e.disabled_at IS NULL
       AND 'import.finished' = ANY (e.events) AND (e.app_ids IS NULL OR NEW.app_id = ANY (e.app_ids))
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owe_lost_batches()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF signpost_records_are_owed() THEN
    INSERT INTO webhook_batches AS known (log_partition, batch_no, batch_no_to, parts)
      SELECT NEW.partition, NEW.batch_no, last_batch_no, '[]' FROM ingest.last_batch WHERE partition = NEW.partition
      ON CONFLICT (log_partition, batch_no) DO UPDATE SET parts = '[]', batch_no_to = greatest(known.batch_no_to, excluded.batch_no_to);
  END IF;
  RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owed_link(link links)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'public'
AS $function$ SELECT to_jsonb(link) - 'deleted_at' || jsonb_build_object('host', (SELECT a.host FROM apps a WHERE a.id = link.app_id),
       'other_codes', to_jsonb(ARRAY(SELECT c.code FROM link_codes c WHERE c.link_id = link.id ORDER BY c.code))) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owner_of_app(wanted text)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ SELECT organization_id FROM apps WHERE id = wanted AND deleted_at IS NULL $function$
;

CREATE OR REPLACE FUNCTION public.signpost_owner_of_link(wanted text)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ SELECT l.organization_id FROM links l JOIN apps a ON a.id = l.app_id
      WHERE l.id = wanted AND l.deleted_at IS NULL AND a.deleted_at IS NULL $function$
;

CREATE OR REPLACE FUNCTION public.signpost_password_reset_of(hash bytea, at timestamp with time zone)
 RETURNS TABLE(user_id text, email text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT u.id, u.email FROM password_resets r JOIN users u ON u.id = r.user_id
   WHERE r.token_hash = hash AND r.expires_at > at AND u.deleted_at IS NULL AND u.disabled_at IS NULL $function$
;

CREATE OR REPLACE FUNCTION public.signpost_prove_address(account text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  UPDATE users SET unverified_since = NULL, password_hash = NULL WHERE id = account AND unverified_since IS NOT NULL;
  IF NOT FOUND THEN RETURN false; END IF;
  DELETE FROM recovery_codes WHERE user_id = account;
  DELETE FROM user_totp WHERE user_id = account;
  RETURN true;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_records_are_owed()
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ SELECT EXISTS (SELECT FROM webhook_endpoints WHERE disabled_at IS NULL AND events && ARRAY[
       'click.batch', 'install.recorded', 'install.attributed', 'event.recorded', 'conversion.recorded', 'match.refused']) $function$
;

CREATE OR REPLACE FUNCTION public.signpost_refuse_deleted_organization()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  PERFORM FROM organizations WHERE id = NEW.organization_id AND deleted_at IS NULL FOR SHARE;
  IF NOT FOUND THEN
    RAISE foreign_key_violation USING CONSTRAINT = 'apps_organization_lives', MESSAGE = 'the organization is deleted';
  END IF;
  RETURN NEW;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_remove_imported(of_import text, wanted text[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$ DELETE FROM links l USING import_rows r
      WHERE l.id = ANY (wanted) AND l.deleted_at IS NOT NULL AND l.source = 'import' AND l.organization_id = ANY (signpost_organizations())
        AND r.import_id = of_import AND r.link_id = l.id AND r.result = 'created' AND r.organization_id = l.organization_id $function$
;

CREATE OR REPLACE FUNCTION public.signpost_remove_member(actor text, organization text, member text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  current_role_of_member text;
BEGIN
  PERFORM FROM organizations WHERE id = organization AND deleted_at IS NULL FOR UPDATE;
  IF NOT FOUND OR NOT (actor = member OR signpost_is_owner(actor, organization)) THEN RETURN 'forbidden'; END IF;
  SELECT role INTO current_role_of_member FROM memberships WHERE organization_id = organization AND user_id = member;
  IF NOT FOUND THEN RETURN 'absent'; END IF;
  IF current_role_of_member = 'owner' AND NOT signpost_has_other_owner(member, organization) THEN RETURN 'last_owner'; END IF;
  DELETE FROM memberships WHERE organization_id = organization AND user_id = member;
  RETURN 'done';
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_rename_organization(actor text, organization text, wanted text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
  IF NOT signpost_is_owner(actor, organization) THEN RETURN 'forbidden'; END IF;
  UPDATE organizations SET name = wanted WHERE id = organization AND deleted_at IS NULL;
  RETURN CASE WHEN FOUND THEN 'done' ELSE 'absent' END;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_report_clicks(p_holder text, p_links text[], p_granted bigint[], p_returned bigint[], p_used bigint[])
 RETURNS TABLE(link_id text)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT r.name FROM click_holders h,
    signpost_report_clicks(h.holder, h.machine, h.instance, false, p_links, p_granted, p_returned, p_used) r
   WHERE h.holder = p_holder AND r.kind = 'wanted'
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_report_clicks(p_holder text, p_machine text, p_instance text, p_leaves boolean, p_links text[], p_granted bigint[], p_returned bigint[], p_used bigint[])
 RETURNS TABLE(kind text, name text, granted bigint, used bigint)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
  old text;
BEGIN
  IF (SELECT gone_at IS NOT NULL FROM click_holders WHERE holder = p_holder FOR UPDATE) THEN
    UPDATE click_shares SET is_given_up = false WHERE holder = p_holder AND is_given_up;
  END IF;
  INSERT INTO click_holders (holder, machine, instance, reported_at) VALUES (p_holder, p_machine, p_instance, now())
    ON CONFLICT (holder) DO UPDATE SET machine = EXCLUDED.machine, instance = EXCLUDED.instance,
      reported_at = EXCLUDED.reported_at, gone_at = NULL;
  RETURN QUERY
    WITH gone AS (
      UPDATE click_holders SET gone_at = now() WHERE holder IN (
        SELECT h.holder FROM click_holders h WHERE h.holder <> p_holder AND h.gone_at IS NULL
           AND ((h.machine = p_machine AND h.instance = p_instance)
             OR h.reported_at NOT BETWEEN now() - interval '10 minutes' AND now() + interval '10 minutes')
           FOR UPDATE SKIP LOCKED)
      RETURNING holder, machine, instance
    ), given_up AS (
      UPDATE click_shares s SET is_given_up = true, is_wanted = false FROM gone g
       WHERE s.holder = g.holder AND s.granted - s.returned > s.used AND NOT s.is_given_up
      RETURNING g.machine || '/' || g.instance AS redirector, s.granted - s.returned - s.used AS held
    ) SELECT 'given_up', g.redirector, sum(g.held)::bigint, 0::bigint FROM given_up g GROUP BY g.redirector;
  RETURN QUERY
    WITH reported AS (
      SELECT l.organization_id, l.app_id, g.* FROM unnest(p_links, p_granted, p_returned, p_used) AS g (link, granted, returned, used)
        JOIN links l ON l.id = g.link AND l.deleted_at IS NULL
    ), merged AS (
      INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used)
        SELECT r.organization_id, r.app_id, r.link, p_holder, r.granted, r.returned, r.used FROM reported r
        ON CONFLICT (link_id, holder) DO UPDATE SET granted = greatest(s.granted, EXCLUDED.granted),
          returned = greatest(s.returned, EXCLUDED.returned), used = greatest(s.used, EXCLUDED.used)
    ) SELECT 'unknown', r.link, r.granted - coalesce(s.granted, 0), 0::bigint
        FROM reported r LEFT JOIN click_shares s ON s.link_id = r.link AND s.holder = p_holder
       WHERE r.granted > coalesce(s.granted, 0);
  IF p_leaves THEN
    -- Also a grant whose answer was lost.
    UPDATE click_shares SET returned = granted - used WHERE holder = p_holder AND granted - returned > used;
    UPDATE click_holders SET gone_at = now() WHERE holder = p_holder;
  END IF;
  RETURN QUERY UPDATE click_shares s SET is_wanted = false WHERE s.holder = p_holder AND s.is_wanted
    RETURNING 'wanted', s.link_id, s.granted, s.used;
  -- The rows of a holder that has been gone for 90 days become part of one row per link.
  SELECT holder INTO old FROM click_holders WHERE gone_at < signpost_deletion_time() - interval '90 days' LIMIT 1;
  IF old IS NOT NULL AND pg_try_advisory_xact_lock(5310966) THEN
    WITH moved AS (
      DELETE FROM click_shares s WHERE s.holder = old AND s.link_id IN (
        SELECT x.link_id FROM click_shares x WHERE x.holder = old LIMIT 1000) RETURNING s.*
    ) INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used, is_given_up)
      SELECT m.organization_id, m.app_id, m.link_id, '', m.granted - m.returned, 0, m.used, true FROM moved m
      ON CONFLICT (link_id, holder) DO UPDATE SET granted = s.granted + EXCLUDED.granted, used = s.used + EXCLUDED.used;
    IF NOT FOUND THEN
      DELETE FROM click_holders WHERE holder = old;
    END IF;
  END IF;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_reset_password(hash bytea, at timestamp with time zone, new_hash text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  account text;
BEGIN
  SELECT user_id INTO account FROM signpost_password_reset_of(hash, at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM users WHERE id = account AND deleted_at IS NULL AND disabled_at IS NULL FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  DELETE FROM password_resets WHERE token_hash = hash AND expires_at > at;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM signpost_prove_address(account);
  UPDATE users SET password_hash = new_hash WHERE id = account;
  RETURN account;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_sealed_sample()
 RETURNS TABLE(id text, api_key_ciphertext text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT a.id, a.api_key_ciphertext FROM apps a WHERE a.deleted_at IS NULL ORDER BY a.created_at DESC LIMIT 1
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_set_role(actor text, organization text, member text, wanted text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  current_role_of_member text;
BEGIN
  PERFORM FROM organizations WHERE id = organization AND deleted_at IS NULL FOR UPDATE;
  IF NOT FOUND OR NOT signpost_is_owner(actor, organization) THEN RETURN 'forbidden'; END IF;
  SELECT role INTO current_role_of_member FROM memberships WHERE organization_id = organization AND user_id = member;
  IF NOT FOUND THEN RETURN 'absent'; END IF;
  IF current_role_of_member = 'owner' AND wanted <> 'owner' AND NOT signpost_has_other_owner(member, organization) THEN
    RETURN 'last_owner';
  END IF;
  UPDATE memberships SET role = wanted WHERE organization_id = organization AND user_id = member;
  RETURN 'done';
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_store()
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT c.system_identifier || '/' || d.oid FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_store_ad_postback(host_app text, app_store_id text, fields jsonb)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
  is_verified boolean := fields ->> 'unverified_reason' IS NULL;
  app record;
  known record;
BEGIN
  IF octet_length(fields::text) > 8192 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'this is no postback';
  END IF;
  -- Devices send to the registrable domain, which several apps of an organization may share.
  SELECT a.id, a.organization_id INTO app FROM apps h JOIN apps a ON a.organization_id = h.organization_id
   WHERE h.id = host_app AND h.deleted_at IS NULL AND h.host_verified_at IS NOT NULL
     AND a.deleted_at IS NULL AND a.ios ->> 'app_store_id' = app_store_id
   ORDER BY a.id <> host_app, a.id LIMIT 1;
  IF NOT FOUND THEN
    RETURN 'other_app';
  END IF;
  SELECT p.unverified_reason IS NULL AS is_verified INTO known FROM ad_postbacks p
   WHERE p.app_id = app.id AND p.framework = fields ->> 'framework' AND p.transaction_id = fields ->> 'transaction_id'
     AND p.sequence_index = (fields ->> 'sequence_index')::smallint;
  IF FOUND AND (known.is_verified OR NOT is_verified) THEN
    RETURN 'known';
  END IF;
  -- The row also makes postbacks of one app wait for each other.
  INSERT INTO ad_postbacks_stored AS s (app_id, day, verified, unverified)
    VALUES (app.id, today, is_verified::integer, (NOT is_verified)::integer)
    ON CONFLICT (app_id) DO UPDATE SET day = today,
      verified = CASE WHEN s.day = today THEN s.verified ELSE 0 END + EXCLUDED.verified,
      unverified = CASE WHEN s.day = today THEN s.unverified ELSE 0 END + EXCLUDED.unverified
    WHERE s.day <> today OR CASE WHEN is_verified THEN s.verified < 20000 ELSE s.unverified < 50 END;
  IF NOT FOUND THEN
    RETURN 'limit';
  END IF;
  -- A verified one replaces one that was not: otherwise, whoever guesses an id could keep the real one out.
  INSERT INTO ad_postbacks AS p (organization_id, app_id, framework, transaction_id, sequence_index, unverified_reason, version,
      ad_network_id, campaign_id, source_identifier, source_app_id, source_domain, marketplace_id, conversion_type, did_win,
      fidelity_type, ad_interaction_type, conversion_value, coarse_conversion_value, country_code)
    SELECT app.organization_id, app.id, f.* FROM jsonb_to_record(fields) AS f (
      framework text, transaction_id text, sequence_index smallint, unverified_reason text, version text,
      ad_network_id text, campaign_id integer, source_identifier text, source_app_id text, source_domain text, marketplace_id text,
      conversion_type text, did_win boolean, fidelity_type smallint, ad_interaction_type text, conversion_value smallint,
      coarse_conversion_value text, country_code text)
    ON CONFLICT (app_id, framework, transaction_id, sequence_index) DO UPDATE SET
      received_at = now(), unverified_reason = NULL, version = EXCLUDED.version, ad_network_id = EXCLUDED.ad_network_id,
      campaign_id = EXCLUDED.campaign_id, source_identifier = EXCLUDED.source_identifier, source_app_id = EXCLUDED.source_app_id,
      source_domain = EXCLUDED.source_domain, marketplace_id = EXCLUDED.marketplace_id, conversion_type = EXCLUDED.conversion_type,
      did_win = EXCLUDED.did_win, fidelity_type = EXCLUDED.fidelity_type, ad_interaction_type = EXCLUDED.ad_interaction_type,
      conversion_value = EXCLUDED.conversion_value, coarse_conversion_value = EXCLUDED.coarse_conversion_value,
      country_code = EXCLUDED.country_code
    WHERE p.unverified_reason IS NOT NULL AND EXCLUDED.unverified_reason IS NULL;
  IF NOT FOUND THEN
    RETURN 'known';
  END IF;
  -- Each makes room for itself, so no request deletes many.
  DELETE FROM ad_postbacks WHERE (app_id, framework, transaction_id, sequence_index) IN (
    SELECT p.app_id, p.framework, p.transaction_id, p.sequence_index FROM ad_postbacks p
     WHERE p.received_at < signpost_deletion_time() - interval '180 days' ORDER BY p.received_at LIMIT 10 FOR UPDATE SKIP LOCKED);
  RETURN 'stored';
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_stored_code(settings jsonb, code text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ SELECT (CASE WHEN settings ->> 'codes_ignore_case' = 'true' THEN lower(code COLLATE "C") ELSE code END) COLLATE "default" $function$
;

CREATE OR REPLACE FUNCTION public.signpost_take_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint, p_share_max integer, p_settle_ms integer, p_waiting integer)
 RETURNS TABLE(outcome text, granted bigint, returned bigint, open_elsewhere bigint)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  SELECT CASE WHEN is_granted THEN 'granted' ELSE 'none' END, granted, returned, open_elsewhere
    FROM signpost_grant_clicks(p_holder, p_link, p_granted, p_returned, p_used, p_share_max, p_waiting)
$function$
;

CREATE OR REPLACE FUNCTION public.signpost_time_text(at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $function$
;

CREATE OR REPLACE FUNCTION public.signpost_trim_audit_log(rows_max integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
  oldest CONSTANT timestamptz := signpost_deletion_time() - interval '1 year';
  trimmed integer;
BEGIN
  DELETE FROM audit_log WHERE id IN (
    SELECT id FROM audit_log WHERE at < oldest AND coalesce(stored_at, at) < oldest ORDER BY at LIMIT rows_max FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS trimmed = ROW_COUNT;
  RETURN trimmed;
END $function$
;

CREATE OR REPLACE FUNCTION public.signpost_webhook_message_id(endpoint text, fact text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ SELECT 'msg_' || left(encode(sha256(convert_to(endpoint || ' ' || fact, 'UTF8')), 'hex'), 32) $function$
;

CREATE TRIGGER batches_owed AFTER DELETE ON ingest.batch REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_batches();

CREATE CONSTRAINT TRIGGER lost_batches_owed AFTER INSERT ON ingest.batch DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.is_partial) EXECUTE FUNCTION signpost_owe_lost_batches();

CREATE TRIGGER apps_change_noted AFTER UPDATE ON public.apps FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION signpost_note_app_change();

CREATE TRIGGER apps_deleted_utm_templates AFTER UPDATE OF deleted_at ON public.apps FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL))) EXECUTE FUNCTION signpost_delete_utm_templates();

CREATE TRIGGER apps_host_claimed_noted AFTER INSERT OR UPDATE OF host, host_verified_at, deleted_at ON public.apps FOR EACH ROW EXECUTE FUNCTION signpost_note_host_claim();

CREATE TRIGGER apps_host_released AFTER UPDATE OF host ON public.apps FOR EACH ROW WHEN ((old.host <> new.host)) EXECUTE FUNCTION signpost_note_released_host();

CREATE TRIGGER apps_organization_lives BEFORE INSERT ON public.apps FOR EACH ROW EXECUTE FUNCTION signpost_refuse_deleted_organization();

CREATE TRIGGER audits_failed_owed AFTER UPDATE OF figures ON public.hourly_audits FOR EACH ROW WHEN (((old.figures IS NULL) AND (new.figures IS NOT NULL) AND (new.failures <> '[]'::jsonb))) EXECUTE FUNCTION signpost_owe_failed_audit();

CREATE TRIGGER imports_finished_owed AFTER UPDATE OF state ON public.imports FOR EACH ROW WHEN (((old.state <> new.state) AND (new.state = ANY (ARRAY['imported'::text, 'undone'::text, 'failed'::text])))) EXECUTE FUNCTION signpost_owe_finished_import();

CREATE TRIGGER forget_mail AFTER DELETE ON public.invitations FOR EACH ROW EXECUTE FUNCTION signpost_forget_mail();

CREATE TRIGGER link_codes_added_owed AFTER INSERT ON public.link_codes REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_codes();

CREATE TRIGGER link_codes_changed_owed AFTER UPDATE ON public.link_codes REFERENCING OLD TABLE AS gone NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_codes();

CREATE TRIGGER link_codes_kept BEFORE INSERT ON public.link_codes FOR EACH ROW EXECUTE FUNCTION signpost_keep_further_code();

CREATE TRIGGER link_codes_removal_noted AFTER DELETE ON public.link_codes FOR EACH ROW EXECUTE FUNCTION signpost_note_code_removal();

CREATE TRIGGER link_codes_removed_owed AFTER DELETE ON public.link_codes REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_codes();

CREATE TRIGGER count_sdk_link AFTER INSERT ON public.links FOR EACH ROW WHEN ((new.source = 'sdk'::text)) EXECUTE FUNCTION signpost_count_sdk_link();

CREATE TRIGGER links_change_noted AFTER UPDATE ON public.links FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION signpost_note_link_change();

CREATE TRIGGER links_changed_owed AFTER UPDATE ON public.links REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_links();

CREATE TRIGGER links_click_shares_dropped AFTER UPDATE OF deleted_at ON public.links FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL))) EXECUTE FUNCTION signpost_drop_click_shares();

CREATE TRIGGER links_click_shares_removed AFTER DELETE ON public.links FOR EACH ROW EXECUTE FUNCTION signpost_drop_click_shares();

CREATE TRIGGER links_code_kept BEFORE INSERT OR UPDATE OF short_code ON public.links FOR EACH ROW EXECUTE FUNCTION signpost_keep_code();

CREATE TRIGGER links_created_owed AFTER INSERT ON public.links REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_created_links();

CREATE TRIGGER links_inserted AFTER INSERT ON public.links REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION signpost_count_links_inserted();

CREATE TRIGGER links_updated AFTER UPDATE ON public.links REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION signpost_count_links_updated();

CREATE TRIGGER forget_mail AFTER DELETE ON public.password_resets FOR EACH ROW EXECUTE FUNCTION signpost_forget_mail();

CREATE TRIGGER end_password_resets AFTER UPDATE OF password_hash, email ON public.users FOR EACH ROW WHEN (((old.password_hash IS DISTINCT FROM new.password_hash) OR (old.email IS DISTINCT FROM new.email))) EXECUTE FUNCTION signpost_end_password_resets();

ALTER TABLE public.ad_postbacks ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.ad_postbacks_stored ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.apps ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.campaign_costs ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.certificate_hosts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.click_shares ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.host_checks ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.import_codes ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.import_parts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.import_rows ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.imports ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.link_codes ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.link_counts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.link_passwords ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.link_tags ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.links ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.long_links_made ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.orphan_visits ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.saved_views ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.sdk_links_made ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.server_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.shared_pages ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.unlearned_codes ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.unlearned_counts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.utm_templates ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_attempts ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_endpoints ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_messages ENABLE ROW LEVEL SECURITY;

CREATE POLICY allowed_apps ON public.ad_postbacks FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.ad_postbacks FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.apps FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.apps FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY tenant ON public.campaign_costs FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.click_shares FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.click_shares FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.host_checks FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.host_checks FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.import_codes FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.import_codes FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.import_parts FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.import_parts FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.import_rows FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.import_rows FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.imports FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.imports FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.link_codes FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.link_codes FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.link_counts FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.link_counts FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.link_passwords FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.link_passwords FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.link_tags FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.link_tags FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.links FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.links FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.orphan_visits FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.orphan_visits FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY tenant ON public.saved_views FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY tenant ON public.server_keys FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY tenant ON public.shared_pages FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.unlearned_codes FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.unlearned_codes FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.unlearned_counts FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.unlearned_counts FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.utm_templates FOR SELECT TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY allowed_apps_delete ON public.utm_templates FOR DELETE TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY allowed_apps_insert ON public.utm_templates FOR INSERT TO signpost_api WITH CHECK (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY allowed_apps_update ON public.utm_templates FOR UPDATE TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_id = ANY (( SELECT signpost_apps() AS signpost_apps)::text[]))));

CREATE POLICY tenant ON public.utm_templates FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.webhook_attempts FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (EXISTS ( SELECT
   FROM webhook_messages m
  WHERE (m.id = webhook_attempts.message_id)))));

CREATE POLICY tenant ON public.webhook_attempts FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.webhook_endpoints FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR (app_ids <@ ( SELECT signpost_apps() AS signpost_apps))));

CREATE POLICY tenant ON public.webhook_endpoints FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));

CREATE POLICY allowed_apps ON public.webhook_messages FOR ALL TO signpost_api USING (((( SELECT signpost_apps() AS signpost_apps) IS NULL) OR ((EXISTS ( SELECT
   FROM webhook_endpoints e
  WHERE (e.id = webhook_messages.endpoint_id))) AND
CASE type
    WHEN 'click.batch'::text THEN ((data -> 'app_ids'::text) <@ to_jsonb(( SELECT signpost_apps() AS signpost_apps)))
    WHEN 'endpoint.disabled'::text THEN (EXISTS ( SELECT
       FROM webhook_endpoints d
      WHERE (d.id = (webhook_messages.data ->> 'id'::text))))
    ELSE COALESCE(((data ->> 'app_id'::text) = ANY (( SELECT signpost_apps() AS signpost_apps)::text[])), true)
END)));

CREATE POLICY tenant ON public.webhook_messages FOR ALL TO signpost_api USING ((organization_id = ANY (( SELECT signpost_organizations() AS signpost_organizations)::text[])));
