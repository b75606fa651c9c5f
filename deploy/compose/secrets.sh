#!/bin/sh
# Makes every secret of compose.yaml, once: a file for each in secrets/. Containers run as several users, so the files can be read
# by all, but only their owner can enter the folder. The secrets of an earlier release, which are in .env, are taken over.
set -eu
cd "$(dirname "$0")"
if [ -e secrets ]; then
  echo "$PWD/secrets exists: its keys encrypt what is stored, so they are not replaced." >&2
  exit 1
fi
# A script that is stopped leaves no folder with half of the secrets.
draft=$(mktemp -d ./secrets.XXXXXX)
trap 'rm -rf "$draft"' EXIT
password() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
key() { head -c 32 /dev/urandom | base64 | tr -d '\n'; }
secret_key() { printf 'k1:%s' "$(key)"; }
# kept NAME MAKE: what .env has under this name, or a new one.
kept() {
  found=$(sed -n "s/^$1=//p" .env 2>/dev/null | tail -n 1 | sed "s/^\(['\"]\)\(.*\)\1\$/\2/")
  if [ -n "$found" ]; then printf '%s' "$found"; else "$2"; fi
}
write() { printf '%s' "$2" > "$draft/$1"; }
postgres=$(kept POSTGRES_PASSWORD password) clickhouse=$(kept CLICKHOUSE_PASSWORD password)
redis=$(kept REDIS_PASSWORD password) nats=$(kept NATS_PASSWORD password)
write postgres_password "$postgres"
write clickhouse_password "$clickhouse"
write database_url "postgres://signpost:$postgres@postgres:5432/signpost"
write clickhouse_url "http://signpost:$clickhouse@clickhouse:8123/signpost"
write redis_url "redis://default:$redis@redis:6379"
write nats_url "nats://signpost:$nats@nats:4222"
write secret_key "$(kept SECRET_KEY secret_key)"
write address_key "$(kept ADDRESS_KEY key)"
# Recent clicks expire. With volatile-lru, a full Valkey drops the oldest of them instead of refusing logins.
write valkey.conf "requirepass $redis
dir /data
maxmemory 512mb
maxmemory-policy volatile-lru
"
# The log has a limit of its own. NATS's default, three quarters of the free disk, would refuse it on a small disk.
write nats.conf "jetstream { store_dir: \"/data\", sync_interval: \"1s\", max_file_store: 1TB }
max_payload: 1048576
authorization { user: signpost, password: \"$nats\" }
"
chmod 644 "$draft"/*
chmod 700 "$draft"
mv "$draft" secrets
trap - EXIT
