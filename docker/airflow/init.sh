#!/bin/sh
# Prepare what the services need before they start. Idempotent: it runs at each `up`, and after an upgrade.
set -eu
airflow db migrate
exec python "$(dirname "$0")/init.py"
