#!/bin/sh
# MWAA runs this script before each process of Airflow starts. Terraform inserts the names. It holds no secret.
set -eu

export AWS_DEFAULT_REGION="${region}"
export LEEWAY_BUCKET="${bucket}"
export LEEWAY_ROLE_ARN="${job_role}"
export LEEWAY_DVC_REMOTE="s3://${bucket}/dvc"
export MLFLOW_TRACKING_URI="${mlflow}"
export PYICEBERG_CATALOG__LEEWAY__TYPE="glue"
export PYICEBERG_CATALOG__LEEWAY__WAREHOUSE="s3://${lake}/lake"
export LEEWAY_STATUS_COPY="s3://${bucket}/leeway/status/documents.zip"
export LEEWAY_HOME="/usr/local/airflow/leeway/home"
export LEEWAY_PROJECT="/usr/local/airflow/leeway/project"
export LEEWAY_PYTHON="/usr/local/airflow/leeway/venv/bin/python"

# The steps have their own environment, apart from Airflow's: the operators start them with LEEWAY_PYTHON.
if [ "$${MWAA_AIRFLOW_COMPONENT:-}" = "worker" ]; then
  mkdir -p "$LEEWAY_HOME" "$LEEWAY_PROJECT"
  # The version id is part of this script, so MWAA replaces its workers when the project changes.
  aws s3api get-object --bucket "${source}" --key pipelines.tar.gz --version-id "${project}" \
    /tmp/pipelines.tar.gz >/tmp/pipelines.json
  tar -xzf /tmp/pipelines.tar.gz -C "$LEEWAY_PROJECT"
  export LEEWAY_GIT_COMMIT="$(cat "$LEEWAY_PROJECT/commit")"
  python3 -m venv /usr/local/airflow/leeway/venv
  "$LEEWAY_PYTHON" -m pip install --quiet --no-deps -r "$LEEWAY_PROJECT/requirements.txt"
fi
