#!/bin/sh
# An empty data folder becomes a cluster, in which the scripts of /docker-entrypoint-initdb.d have run; then the command.
# Run as postgres. Of the image's variables it knows POSTGRES_PASSWORD, POSTGRES_USER and POSTGRES_DB.
set -eu

make_cluster() {
    user="${POSTGRES_USER:-postgres}" word="$(mktemp)"
    printf '%s' "${POSTGRES_PASSWORD:?must be set}" >"$word"
    initdb --username "$user" --pwfile "$word" --auth-local trust --auth-host scram-sha-256 --locale C.UTF-8
    rm "$word"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    # On its socket only: who waits for the port waits until all is made.
    pg_ctl --wait --options "-c listen_addresses=''" start
    database="${POSTGRES_DB:-$user}"
    [ "$database" = postgres ] || createdb --username "$user" "$database"
    for script in /docker-entrypoint-initdb.d/*.sh; do
        [ ! -e "$script" ] || /bin/sh "$script"
    done
    pg_ctl --wait --mode fast stop
}

if [ "$1" = postgres ]; then
    [ -s "$PGDATA/PG_VERSION" ] || make_cluster
    set -- "$@" -c "listen_addresses=*"
fi
exec "$@"
