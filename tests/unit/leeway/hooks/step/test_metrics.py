"""Our numbers among Airflow's metrics: what is really sent to StatsD."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.tools import compose

CODE = """
import json, sys
from leeway.hooks.step import metrics
trained = {"cost_usd": 0.25, "saving": 0.7, "interruptions": 2, "billable_s": 30, "training_s": 100.4}
metrics.count_training(trained, "flights")
metrics.count_training({"cost_usd": None, "saving": None}, "")
metrics.count_drift_decision({"outcome": "drift"}, "flights")
metrics.count_drift_decision({"outcome": "none"}, "flights")
metrics.count_gate_verdict({"outcome": "failed"}, "flights")
"""
DASHBOARD = compose.ROOT / "docker/monitoring/grafana/dashboards/leeway.json"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Each packet, as the environment of docker-compose.yaml lets Airflow send it."""
    environment = compose.load()["x-airflow-environment"]
    ours = {name: environment[name] for name in environment if name.startswith("AIRFLOW__METRICS__")}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        ours |= {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1"}
        ours["AIRFLOW__METRICS__STATSD_PORT"] = str(listener.getsockname()[1])
        folder = tmp_path_factory.mktemp("airflow")
        paths = {"PYTHONPATH": f"{compose.ROOT}{os.pathsep}{compose.ROOT / 'plugins'}", "AIRFLOW_HOME": str(folder)}
        subprocess.run([sys.executable, "-c", CODE], env={**os.environ, **ours, **paths}, cwd=folder, check=True)
        found = []
        while True:
            try:
                found.append(listener.recv(4096).decode())
            except BlockingIOError:
                return [one for one in found if ".leeway." in one]


def test_costs_drift_and_verdicts_are_sent_with_their_tags(sent):
    assert sent == [
        "airflow.leeway.training.jobs,model=flights:1|c",
        "airflow.leeway.training.cost_usd_micros,model=flights:250000|c",
        "airflow.leeway.training.interruptions,model=flights:2|c",
        "airflow.leeway.training.billable_s,model=flights:30|c",
        "airflow.leeway.training.training_s,model=flights:100|c",
        "airflow.leeway.training.saving,model=flights:0.7|g",
        "airflow.leeway.training.jobs,model=none:1|c",
        "airflow.leeway.drift.decisions,model=flights,outcome=drift:1|c",
        "airflow.leeway.drift.drifted,model=flights:1.0|g",
        "airflow.leeway.drift.decisions,model=flights,outcome=none:1|c",
        "airflow.leeway.drift.drifted,model=flights:0.0|g",
        "airflow.leeway.gate.verdicts,model=flights,verdict=failed:1|c",
    ]


def known(sent: list[str]) -> set[str]:
    """Prometheus's names of all that Airflow and we send."""
    from pathlib import Path

    from airflow.sdk._shared.observability import metrics

    listed = yaml.safe_load((Path(metrics.__file__).parent / "metrics_template.yaml").read_text())["metrics"]
    names = [f"airflow.{one['name']}" for one in listed] + [re.split("[,:]", one)[0] for one in sent]
    return {re.sub(r"[^a-zA-Z0-9]", "_", name) for name in names}


def asked(expression: str) -> set[str]:
    names = re.findall(r"\bairflow_\w+", expression)
    return {re.sub("_bucket$", "", name) for name in names}


def test_dashboard_asks_for_nothing_that_nobody_sends(sent):
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            assert asked(target["expr"]), panel["title"]
            assert asked(target["expr"]) <= known(sent), panel["title"]
    titles = " ".join(panel["title"] for panel in panels)
    for word in ("duration", "Queue time", "cost", "saving", "Drift", "Failures"):
        assert word in titles


def test_name_that_nobody_sends_is_seen(sent):
    assert not asked("rate(airflow_task_duraton_bucket[5m])") <= known(sent)
    assert not asked("airflow_leeway_training_costs") <= known(sent)


def expression(title: str, number: int = 0) -> str:
    panels = {panel["title"]: panel for panel in json.loads(DASHBOARD.read_text())["panels"]}
    return str(panels[title]["targets"][number]["expr"]).replace("$__rate_interval", "4m")


COST = "airflow_leeway_training_cost_usd_micros"


@pytest.mark.parametrize(
    ("expr", "series", "told"),
    [
        # A counter is there with its first event: to increase() alone that is none, and a training is rare.
        (expression("Training cost, a day"), {f'{COST}{{model="m"}}': "_x99 250000x100"}, '{model="m"} 0.25'),
        (expression("Training cost, a day"), {f'{COST}{{model="m"}}': "250000x1900"}, '{model="m"} 0'),
        (expression("Training cost, a day"), {f'{COST}{{model="m"}}': "250000x1900 500000x100"}, '{model="m"} 0.25'),
        (expression("Training cost, a day"), {f'{COST}{{model="m"}}': "9x1900 _x9 250000x100"}, '{model="m"} 0.25'),
        (expression("Failures"), {'airflow_ti_failures{dag_id="d",task_id="t"}': "_x99 1x20"}, '{dag_id="d"} 1'),
        (
            expression("Failures", 1),
            {
                'airflow_ti_finish{state="failed",dag_id="d"}': "_x99 2x20",
                'airflow_ti_finish{state="success"}': "7x119",
            },
            '{state="failed"} 2',
        ),
        (
            expression("Spot saving"),
            {
                'airflow_leeway_training_billable_s{model="m"}': "_x99 30x20",
                'airflow_leeway_training_training_s{model="m"}': "_x99 100x20",
            },
            '{model="m"} 0.7',
        ),
        (
            expression("Task duration, 95th percentile"),
            {
                'airflow_task_duration_bucket{dag_id="d",task_id="t",le="1"}': "_x99 0x2",
                'airflow_task_duration_bucket{dag_id="d",task_id="t",le="2"}': "_x99 1x2",
                'airflow_task_duration_bucket{dag_id="d",task_id="t",le="+Inf"}': "_x99 1x2",
            },
            '{dag_id="d", task_id="t"} 1.95',
        ),
    ],
)
def test_panel_shows_the_first_of_its_kind_too(expr, series, told, tmp_path):
    if not shutil.which("promtool"):
        pytest.skip("no promtool here: apt-get install prometheus")
    labels, value = told.rsplit(" ", 1)
    minutes = max(sum(int(one) + 1 for one in re.findall(r"x(\d+)", values)) for values in series.values()) - 1
    asked_for: dict[str, Any] = {"expr": f"round({expr}, 0.01)", "eval_time": f"{minutes}m"}
    asked_for["exp_samples"] = [{"labels": labels, "value": float(value)}]
    given = [{"series": name, "values": values} for name, values in series.items()]
    told_of = {"interval": "1m", "input_series": given, "promql_expr_test": [asked_for]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"tests": [told_of]}))
    answer = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
