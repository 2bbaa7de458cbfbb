#!/bin/sh
# What must be there before the services start. Idempotent: it runs at each `up`, and at an upgrade.
set -eu
airflow db migrate
exec python "$(dirname "$0")/init.py"
