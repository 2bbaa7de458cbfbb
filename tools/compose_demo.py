"""Run the demo on the stack of docker-compose.yaml: January and February 2013, and a model as of 1 March.

Run it as `make compose-demo` while that stack is up. A repeated run does only what is missing or failed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from stack import display
from stack.airflow.client import AirflowClient
from stack.errors import RequestError, StackError, UnavailableError
from stack.jobs.demo import Demo
from stack.jobs.job import INGEST_DAG, PROMOTE_PARAMS, WEATHER_DAG, Session
from stack.jobs.request import Request
from stack.jobs.results_table import build_results_table
from stack.jobs.training_runs import read_training_runs
from stack.layout import Layout
from stack.services.commands import USER
from stack.services.record import Ports, Stack

ENV_FILE = Path(__file__).resolve().parents[1] / ".env"
FIRST_DAY, AS_OF = date(2013, 1, 1), date(2013, 3, 1)


def main() -> int:
    """Run the demo and return the exit code: 0, or the code of the error, which is printed."""
    try:
        run(open_session(read_settings(ENV_FILE)))
    except StackError as error:
        display.print_error(error)
        return error.exit_code
    return 0


def run(session: Session) -> None:
    """Ingest the weather and the flights, train, and print the table of results. Idempotent.

    Raises:
        StackError: a run failed, or a service does not answer. Its `exit_code` is 75 if a retry can help.
    """
    demo = Demo(Layout.from_environment(), Request(FIRST_DAY, AS_OF - timedelta(days=1), [AS_OF]))
    session.unpause_dags(WEATHER_DAG, INGEST_DAG, demo.request.train_dag)
    demo.ingest(session)
    demo.train(session, [AS_OF], PROMOTE_PARAMS)
    console = display.open_console()
    console.print(build_results_table(read_training_runs(session.stack.mlflow_url, demo.request.model, [AS_OF])))
    console.print(", ".join(f"{name} {seconds:.0f} s" for name, seconds in demo.phases_s.items()))


def read_settings(path: Path) -> dict[str, str]:
    """Return the variables in .env.

    Raises:
        RequestError: the file does not exist, or has no AIRFLOW_ADMIN_PASSWORD. A retry cannot help.
    """
    if not path.is_file():
        raise RequestError(f"There is no {path.name}: `make compose-up` creates it, and starts the stack.")
    lines = (line.partition("=") for line in path.read_text().splitlines() if "=" in line and not line.startswith("#"))
    settings = {name.strip(): value.strip().strip("'\"") for name, _, value in lines}
    if not settings.get("AIRFLOW_ADMIN_PASSWORD"):
        raise RequestError(f"{path.name} has no AIRFLOW_ADMIN_PASSWORD: `make compose-init` adds what is missing.")
    return settings


def open_session(settings: Mapping[str, str]) -> Session:
    """Return a session with the stack that the settings describe.

    Raises:
        UnavailableError: Airflow does not answer. A retry can help.
    """
    variables = {"airflow": ("AIRFLOW_PORT", 8080), "mlflow": ("MLFLOW_PORT", 5000), "docs": ("DOCS_PORT", 8000)}
    port_numbers = {name: int(settings.get(key) or default) for name, (key, default) in variables.items()}
    # With this start time, an active run never counts as a run of an earlier stack, and the demo does not wait until
    # Airflow parses the DAG files once more.
    started_at = datetime.min.replace(tzinfo=UTC)
    stack = Stack(id="compose", project=ENV_FILE.parent, started_at=started_at, ports=Ports(drydock=0, **port_numbers))
    try:
        client = AirflowClient(stack.airflow_url, USER, settings["AIRFLOW_ADMIN_PASSWORD"])
    except UnavailableError as error:
        raise UnavailableError(f"{error} Start the stack with `make compose-up`.") from None
    return Session(stack, client, check=lambda: None)


if __name__ == "__main__":
    sys.exit(main())
