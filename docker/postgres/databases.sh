#!/bin/sh
# Create a database, and a role that owns it, for each service. The postgres image runs this once, for an empty data
# folder.
set -eu

make_database() {
    # psql reads the password from the environment, because other users can read command lines.
    NAME="$1" PASSWORD="$2" psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" \
        --dbname postgres <<'SQL'
\getenv name NAME
\getenv password PASSWORD
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name" ENCODING 'UTF8' TEMPLATE template0;
REVOKE CONNECT ON DATABASE :"name" FROM PUBLIC;
SQL
}

make_database airflow "$AIRFLOW_DB_PASSWORD"
make_database mlflow "$MLFLOW_DB_PASSWORD"
make_database lake "$LAKE_DB_PASSWORD"
