"""Write the commands that score a published row with the champion, for the end of the demo."""

from __future__ import annotations

import shlex

from stack.jobs.pipelines_command import read_pipelines_output
from stack.layout import IS_CHECKOUT, PROGRAM, Layout
from stack.services.ports import PREFERRED_PORTS
from stack.services.record import Stack

PAGE = "docs/how-to/serving.md"
PORT = 8081
"""Port of the server in the commands. Airflow has 8080."""
TIMEOUT_S = 120
"""Longest time of the command that reads the row, seconds."""
JSON_ARGUMENTS = "-H 'Content-Type: application/json' -d \"$row\""
SERVE = """Score a flight with the champion. This can be pasted into a shell ({page}):
  {program} up
  export MLFLOW_TRACKING_URI={mlflow_url}
  row={row}
  {python} -m pipelines serve --model {model} --port {port} & server=$!
  {curl}
  kill $server
"""
MATERIALIZE = """
An endpoint looks up features that are not in the row, such as the weather. This command writes their newest values
to the online store:
  export AWS_ENDPOINT_URL={drydock_url} AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
  {python} -m pipelines materialize --model {model}
"""
DEPLOY = """Deploy the champion to an endpoint of drydock ({page}, "Deploy an endpoint"): in Airflow, unpause the
DAG {dag}, and trigger it. When its run has succeeded, this command calls the endpoint, in the same shell:
  {curl}
"""


def build_serving_hint(layout: Layout, stack: Stack, model: str, *, has_endpoint: bool, has_lookups: bool) -> str:
    """Return the commands that start a server and send it a row; empty if no row can be read.

    Args:
        layout: the folders of the stack.
        stack: the running stack. If it will be stopped, the next one is expected at the preferred ports.
        model: registered model with a champion.
        has_endpoint: whether a DAG deploys the model.
        has_lookups: whether a DAG writes looked-up features of the model to the online store.
    """
    row = _read_row(layout, stack, model)
    if not row:
        return ""
    stays_up = layout.keep_running_file.exists()
    mlflow_url = stack.mlflow_url if stays_up else f"http://127.0.0.1:{PREFERRED_PORTS.mlflow}"
    drydock_url = stack.drydock_url if stays_up else f"http://127.0.0.1:{PREFERRED_PORTS.drydock}"
    python = ".venv/bin/python" if IS_CHECKOUT else "python"
    hint = SERVE.format(
        page=PAGE,
        program=PROGRAM,
        mlflow_url=mlflow_url,
        row=shlex.quote(row),
        python=python,
        model=model,
        port=PORT,
        curl=format_server_call(PORT),
    )
    if has_endpoint:
        hint += MATERIALIZE.format(drydock_url=drydock_url, python=python, model=model) if has_lookups else ""
        hint += DEPLOY.format(page=PAGE, dag=f"{model}_deploy", curl=format_endpoint_call(drydock_url, model))
    return hint.rstrip("\n")


def format_server_call(port: int) -> str:
    """Return the curl command that waits for `serve` to answer, and sends it the row of the shell variable `row`."""
    wait = "--retry 120 --retry-delay 1 --retry-connrefused"
    return f"curl -s {wait} http://127.0.0.1:{port}/invocations {JSON_ARGUMENTS}"


def format_endpoint_call(drydock_url: str, endpoint: str) -> str:
    """Return the curl command that sends the row of the shell variable `row` to an endpoint of drydock."""
    sign = "--aws-sigv4 aws:amz:us-east-1:sagemaker --user any:any"
    return f"curl -s {sign} {drydock_url}/endpoints/{endpoint}/invocations {JSON_ARGUMENTS}"


def _read_row(layout: Layout, stack: Stack, model: str) -> str:
    """Return a published row as JSON; empty if it cannot be read, because nothing depends on the hint."""
    # The command prints a curl command, whose last argument is the row.
    output = read_pipelines_output(layout, stack, ["serve", "--model", model, "--example"], TIMEOUT_S)
    return shlex.split(output)[-1] if output else ""
