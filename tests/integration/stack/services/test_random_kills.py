"""Kill and stall services of the real stack while it ingests the real flights: no day is lost, and nobody helps."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import Thread

import psutil
import pytest

from benchmarks.year import FIRST_DAY, LAKE_SCRIPT, count_faults, count_source_rows
from stack.airflow.backfill import Backfill
from stack.airflow.client import AirflowClient
from stack.airflow.dag_parsing import unpause_when_parsed
from stack.layout import CODE_FOLDER, Layout
from stack.services.commands import API_SERVER, USER, list_services, read_password
from stack.services.environment import build_environment
from stack.services.ports import ANY_PORTS
from stack.services.readiness import load_live_stack, wait_until_ready
from stack.services.record import Stack
from stack.services.start_stop import start_stack, stop_stack

DAG = "flights_ingest"
DAYS, KILLS, SEED = 25, 20, 16
PAUSES_S = (5.0, 20.0)
"""Shortest and longest pause between two kills."""
STALL_S = 40.0
EARLY_KILLS = 3
"""How many kills do not wait for the days that are completed."""


class RandomKills(Thread):
    """Kill random services, `KILLS` times in all, each time one that the supervisor has started.

    The kills are spread over the whole backfill: on a slow machine they would else be over before its first day is.
    """

    def __init__(self, layout: Layout, stack: Stack) -> None:
        super().__init__(daemon=True)
        self.layout, self.stack, self.random = layout, stack, random.Random(SEED)
        self.names = [service.name for service in list_services(layout, stack) if not service.runs_once]
        self.killed: Counter[str] = Counter()
        self.completed_days = 0

    def run(self) -> None:
        """Stall the API server, which ends nothing, then kill services, with random pauses."""
        time.sleep(PAUSES_S[0])
        self._stall(API_SERVER)
        while self.killed.total() < KILLS:
            time.sleep(self.random.uniform(*PAUSES_S))
            while self.completed_days < DAYS * (self.killed.total() - EARLY_KILLS) / KILLS:
                time.sleep(0.5)
            name = self.random.choice(self.names)
            while not self._kill(name):
                time.sleep(0.1)
            self.killed[name] += 1
            sys.stdout.write(f"killed {name} ({self.killed.total()} of {KILLS})\n")

    def _stall(self, name: str) -> None:
        process = psutil.Process(load_live_stack(self.layout, self.stack).services[name].pid)
        process.suspend()
        time.sleep(STALL_S)
        process.resume()

    def _kill(self, name: str) -> bool:
        process = load_live_stack(self.layout, self.stack).services[name]
        if not process.is_alive():
            return False
        psutil.Process(process.pid).kill()
        return True


def run_with_random_kills(layout: Layout, stack: Stack) -> tuple[AirflowClient, Counter[str]]:
    """Backfill `DAYS` days while random services are killed, and wait until all services answer again."""
    kills, days = RandomKills(layout, stack), [FIRST_DAY + timedelta(days=number) for number in range(DAYS)]

    def check() -> None:
        load_live_stack(layout, stack)

    client = AirflowClient(stack.airflow_url, USER, read_password(layout), check)
    unpause_when_parsed(client, [DAG], stack.started_at, check)
    kills.start()

    def show(completed_days: int, *_: object) -> None:
        kills.completed_days = completed_days

    Backfill(client, DAG, days, 6, stack.started_at, check).complete(show)
    kills.join()
    wait_until_ready(layout, stack, lambda *_: None)
    return client, kills.killed


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_kills_lose_no_day(tmp_path: Path) -> None:
    layout = Layout(project=CODE_FOLDER, home=tmp_path / "home")
    stack, _ = start_stack(layout, ANY_PORTS, lambda *_: None)
    try:
        client, killed = run_with_random_kills(layout, stack)
        assert {run["state"] for run in client.list_runs(DAG)} == {"success"}
        tasks = client.list_task_instances(DAG, "~")
        record = load_live_stack(layout, stack)
    finally:
        stop_stack(layout)
    sys.stdout.write(f"killed {dict(killed)}; tries {Counter(task['try_number'] for task in tasks)}\n")
    assert {task["state"] for task in tasks} == {"success"}
    assert record.restarts == killed
    assert killed.total() == KILLS
    command, env = [sys.executable, "-c", LAKE_SCRIPT], build_environment(layout, stack, os.environ)
    lake = subprocess.run(command, env=env, cwd=layout.project, capture_output=True, text=True, check=True)
    assert not any(count_faults(json.loads(lake.stdout), count_source_rows(DAYS)).values())
