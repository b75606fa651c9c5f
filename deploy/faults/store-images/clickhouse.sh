#!/bin/bash
# Starts the engine with the variables of the official image that compose.yaml sets. It listens on loopback only, and asks even
# /ping for a password: a proxy and wget's settings make up for that.
set -eu
data=/var/lib/clickhouse
password=$(cat "$CLICKHOUSE_PASSWORD_FILE")
echo "$password" >$data/password-signpost
chmod 600 $data/password-signpost
printf 'http_user = signpost\nhttp_password = %s\nauth_no_challenge = on\n' "$password" >/root/.wgetrc
export TZ=UTC UV_THREADPOOL_SIZE=24
cd /engine
node dist/deploy/local/clickhouse/main.js $data/store 8123 &
trap 'kill $!; wait $!' TERM
until wget -q -O /dev/null --post-data="CREATE DATABASE IF NOT EXISTS $CLICKHOUSE_DB" http://127.0.0.1:8123/; do sleep 0.2; done
node deploy/faults/loopback-proxy.mjs "$(hostname -i)" 8123 >/dev/null &
wait -n
