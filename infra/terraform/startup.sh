#!/bin/sh
# MWAA runs this before each of Airflow's processes starts. Terraform fills in the names; there is no secret here.
set -eu

export AWS_DEFAULT_REGION="${region}"
export LEEWAY_BUCKET="${bucket}"
export LEEWAY_ROLE_ARN="${job_role}"
export LEEWAY_DVC_REMOTE="s3://${bucket}/dvc"
export MLFLOW_TRACKING_URI="${mlflow}"
export PYICEBERG_CATALOG__LEEWAY__TYPE="glue"
export PYICEBERG_CATALOG__LEEWAY__WAREHOUSE="s3://${lake}/lake"
export LEEWAY_HOME="/usr/local/airflow/leeway/home"
export LEEWAY_PROJECT="/usr/local/airflow/leeway/project"
export LEEWAY_PYTHON="/usr/local/airflow/leeway/venv/bin/python"

# The steps' libraries and Airflow's do not meet: the operators start the steps with LEEWAY_PYTHON.
if [ "$${MWAA_AIRFLOW_COMPONENT:-}" = "worker" ]; then
  mkdir -p "$LEEWAY_HOME" "$LEEWAY_PROJECT"
  # That very version: with another one this script is another one, and MWAA makes its workers anew.
  aws s3api get-object --bucket "${source}" --key pipelines.tar.gz --version-id "${project}" \
    /tmp/pipelines.tar.gz >/tmp/pipelines.json
  tar -xzf /tmp/pipelines.tar.gz -C "$LEEWAY_PROJECT"
  export LEEWAY_GIT_COMMIT="$(cat "$LEEWAY_PROJECT/commit")"
  python3 -m venv /usr/local/airflow/leeway/venv
  "$LEEWAY_PYTHON" -m pip install --quiet --no-deps -r "$LEEWAY_PROJECT/requirements.txt"
fi
