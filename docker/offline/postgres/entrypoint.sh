#!/bin/sh
# Create a cluster in an empty data folder, run the scripts of /docker-entrypoint-initdb.d in it, then run the command.
# Run this as the user postgres. Of the image's variables it reads POSTGRES_PASSWORD, POSTGRES_USER and POSTGRES_DB.
set -eu

make_cluster() {
    user="${POSTGRES_USER:-postgres}" password_file="$(mktemp)"
    printf '%s' "${POSTGRES_PASSWORD:?must be set}" >"$password_file"
    initdb --username "$user" --pwfile "$password_file" --auth-local trust --auth-host scram-sha-256 --locale C.UTF-8
    rm "$password_file"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    # The server listens on its socket only, so that clients of the port wait until the databases exist.
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
