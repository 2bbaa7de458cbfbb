"""The main job through the stack of docker-compose.yaml: January and February 2013, and a model as of 1 March.

`make compose-demo`, while that stack is up. What is done already is not done again, so it can be repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from stack import display
from stack.airflow.client import AirflowApi
from stack.errors import RequestError, StackError, UnavailableError
from stack.jobs import training_runs
from stack.jobs.demo import Demo
from stack.jobs.job import INGEST, PROMOTE, TRAIN, WEATHER, Session
from stack.jobs.request import Request
from stack.jobs.results_table import table
from stack.layout import Layout
from stack.services.commands import USER
from stack.services.record import Ports, Stack

ENV = Path(__file__).resolve().parents[1] / ".env"
FIRST, AS_OF = date(2013, 1, 1), date(2013, 3, 1)


def main() -> int:
    """The table is on stdout. 0 where all runs succeeded; else the error's own code, in one line."""
    try:
        run(opened(settings(ENV)))
    except StackError as error:
        display.complain(error)
        return error.exit_code
    return 0


def run(session: Session) -> None:
    """Days, weather, the training; then the table.

    Raises:
        StackError: a run failed, or a service does not answer.
    """
    demo = Demo(Layout.from_environment(), Request(FIRST, AS_OF - timedelta(1), [AS_OF]))
    session.unpause(WEATHER, INGEST, TRAIN)
    demo.ingest(session)
    demo.train(session, [AS_OF], PROMOTE)
    out = display.console()
    out.print(table(training_runs.rows(session.stack.mlflow_url, [AS_OF])))
    out.print(", ".join(f"{name} {seconds:.0f} s" for name, seconds in demo.phases.items()))


def settings(path: Path) -> dict[str, str]:
    """What is in .env.

    Raises:
        RequestError: there is none, or it has no password of Airflow's.
    """
    if not path.is_file():
        raise RequestError(f"There is no {path.name}: `make compose-up` makes it, and starts the stack.")
    lines = (line.partition("=") for line in path.read_text().splitlines() if "=" in line and not line.startswith("#"))
    told = {name.strip(): value.strip().strip("'\"") for name, _, value in lines}
    if not told.get("AIRFLOW_ADMIN_PASSWORD"):
        raise RequestError(f"{path.name} has no AIRFLOW_ADMIN_PASSWORD: `make compose-init` adds what is missing.")
    return told


def opened(told: Mapping[str, str]) -> Session:
    """A session with the stack.

    Raises:
        UnavailableError: it does not answer.
    """
    names = {"airflow": ("AIRFLOW_PORT", 8080), "mlflow": ("MLFLOW_PORT", 5000), "docs": ("DOCS_PORT", 8000)}
    ports = Ports(drydock=0, **{name: int(told.get(key) or usual) for name, (key, usual) in names.items()})
    # What runs there was not cut off by us, whenever it began.
    stack = Stack(id="compose", project=ENV.parent, started_at=datetime.min.replace(tzinfo=UTC), ports=ports)
    try:
        api = AirflowApi(stack.airflow_url, USER, told["AIRFLOW_ADMIN_PASSWORD"])
    except UnavailableError as error:
        raise UnavailableError(f"{error} Is the stack up? `make compose-up` starts it.") from None
    return Session(stack, api, lambda: None)


if __name__ == "__main__":
    sys.exit(main())
