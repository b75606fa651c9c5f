#!/bin/bash
# Starts Postgres with the variables of the official image that compose.yaml sets.
set -eu
data=/var/lib/postgresql/data
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
if [ ! -e $data/PG_VERSION ]; then
  chown postgres /var/lib/postgresql
  as_postgres initdb --pgdata=$data --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth=scram-sha-256 >/dev/null
  echo 'host all all all scram-sha-256' >>$data/pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_DB" | as_postgres postgres --single -D $data postgres >/dev/null
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -D $data -c listen_addresses='*'
