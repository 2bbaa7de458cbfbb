"""Test the metrics that Leeway adds to Airflow's, as they are sent to StatsD, and the dashboard that shows them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools import compose

CODE = """
import json, sys
from leeway.hooks.step import metrics
training = {"cost_usd": 0.25, "saving": 0.7, "interruptions": 2, "billable_s": 30, "training_s": 100.4}
training |= {"queue_s": 12.3}
metrics.count_training(training, "flights")
metrics.count_training({"cost_usd": None, "saving": None}, "")
metrics.count_drift_decision({"outcome": "drift"}, "flights")
metrics.count_drift_decision({"outcome": "none"}, "flights")
metrics.count_gate_verdict({"outcome": "failed"}, "flights")
metrics.count_skew_result({"outcome": "undecided"}, "flights")
"""
POOLS = """
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.pool import Pool
from airflow.settings import engine
from airflow.utils.session import create_session
import_all_models()
Base.metadata.create_all(engine)
with create_session() as session:
    session.add(Pool(pool="gpu", slots=2, include_deferred=True))
SchedulerJobRunner(Job())._emit_pool_metrics()
"""
DASHBOARD = compose.ROOT / "docker/monitoring/grafana/dashboards/leeway.json"


def run_and_listen(code: str, folder: Path) -> list[str]:
    """Run Python with the settings of docker-compose.yaml; return the packets that it sends to StatsD."""
    environment = compose.load()["x-airflow-environment"]
    settings = {name: environment[name] for name in environment if name.startswith("AIRFLOW__METRICS__")}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        settings |= {"AIRFLOW__METRICS__STATSD_ON": "True", "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1"}
        settings["AIRFLOW__METRICS__STATSD_PORT"] = str(listener.getsockname()[1])
        paths = {"PYTHONPATH": f"{compose.ROOT}{os.pathsep}{compose.ROOT / 'plugins'}", "AIRFLOW_HOME": str(folder)}
        subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings, **paths}, cwd=folder, check=True)
        packets = []
        while True:
            try:
                packets.append(listener.recv(4096).decode())
            except BlockingIOError:
                return packets


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the packets about results."""
    return [packet for packet in run_and_listen(CODE, tmp_path_factory.mktemp("airflow")) if ".leeway." in packet]


def test_scheduler_sends_the_slots_of_each_pool_which_dashboard_and_alert_query(tmp_path: Path) -> None:
    packets = run_and_listen(POOLS, tmp_path)
    for kind, count in {"open": 2, "queued": 0, "running": 0, "deferred": 0, "scheduled": 0}.items():
        assert any(
            re.fullmatch(rf"airflow\.pool\.{kind}_slots,pool_name=gpu:{count}(\.0)?\|g", packet) for packet in packets
        ), kind
    sent = {re.sub(r"\W", "_", packet.partition(",")[0]) for packet in packets}
    alerts = (compose.ROOT / "docker/monitoring/alerts.yaml").read_text()
    for text in (alerts, DASHBOARD.read_text()):
        names = {name for name in list_queried(text) if "_pool_" in name}
        assert names and names <= sent
    assert not list_queried("airflow_pool_slots") <= sent, "the control"


def test_costs_drift_and_verdicts_are_sent_with_their_tags(packets):
    assert packets == [
        "airflow.leeway.training.jobs,model=flights:1|c",
        "airflow.leeway.training.cost_usd_micros,model=flights:250000|c",
        "airflow.leeway.training.interruptions,model=flights:2|c",
        "airflow.leeway.training.billable_s,model=flights:30|c",
        "airflow.leeway.training.training_s,model=flights:100|c",
        "airflow.leeway.training.queue_s,model=flights:12|c",
        "airflow.leeway.training.saving,model=flights:0.7|g",
        "airflow.leeway.training.jobs,model=none:1|c",
        "airflow.leeway.drift.decisions,model=flights,outcome=drift:1|c",
        "airflow.leeway.drift.drifted,model=flights:1.0|g",
        "airflow.leeway.drift.decisions,model=flights,outcome=none:1|c",
        "airflow.leeway.drift.drifted,model=flights:0.0|g",
        "airflow.leeway.gate.verdicts,model=flights,verdict=failed:1|c",
        "airflow.leeway.skew.results,model=flights,outcome=undecided:1|c",
    ]


def list_sent(packets: list[str]) -> set[str]:
    """List Prometheus's names of the metrics that Airflow and Leeway send."""
    from airflow.sdk._shared.observability import metrics

    entries = yaml.safe_load((Path(metrics.__file__).parent / "metrics_template.yaml").read_text())["metrics"]
    names = [f"airflow.{entry['name']}" for entry in entries]
    names += [re.split("[,:]", packet)[0] for packet in packets]
    return {re.sub(r"[^a-zA-Z0-9]", "_", name) for name in names}


def list_queried(expression: str) -> set[str]:
    """List the metrics of Airflow that an expression queries; tests/unit/docker/test_alerts.py checks all others."""
    names = re.findall(r"\bairflow_\w+", expression)
    return {re.sub("_bucket$", "", name) for name in names}


def test_dashboard_queries_only_metrics_that_are_sent(packets):
    panels = json.loads(DASHBOARD.read_text())["panels"]
    sent = list_sent(packets)
    for panel in panels:
        for target in panel["targets"]:
            assert re.search(r"\b(airflow|leeway)_\w+", target["expr"]), panel["title"]
            assert list_queried(target["expr"]) <= sent, panel["title"]
    titles = " ".join(panel["title"] for panel in panels)
    for word in ("duration", "Queue time", "cost", "saving", "Drift", "Failures", "queues of AWS Batch"):
        assert word in titles


def test_check_finds_a_metric_that_is_not_sent(packets):
    sent = list_sent(packets)
    assert not list_queried("rate(airflow_task_duraton_bucket[5m])") <= sent
    assert not list_queried("airflow_leeway_training_costs") <= sent


def read_expression(title: str, number: int = 0) -> str:
    """Return an expression of a panel of the dashboard."""
    panels = {panel["title"]: panel for panel in json.loads(DASHBOARD.read_text())["panels"]}
    return str(panels[title]["targets"][number]["expr"]).replace("$__rate_interval", "4m")


COST = "airflow_leeway_training_cost_usd_micros"


@pytest.mark.parametrize(
    ("expression", "series", "sample"),
    [
        # A counter begins with its first event. increase() alone counts no such event, and trainings are rare.
        (read_expression("Training cost, a day"), {f'{COST}{{model="m"}}': "_x99 250000x100"}, '{model="m"} 0.25'),
        (read_expression("Training cost, a day"), {f'{COST}{{model="m"}}': "250000x1900"}, '{model="m"} 0'),
        (
            read_expression("Training cost, a day"),
            {f'{COST}{{model="m"}}': "250000x1900 500000x100"},
            '{model="m"} 0.25',
        ),
        (
            read_expression("Training cost, a day"),
            {f'{COST}{{model="m"}}': "9x1900 _x9 250000x100"},
            '{model="m"} 0.25',
        ),
        (read_expression("Failures"), {'airflow_ti_failures{dag_id="d",task_id="t"}': "_x99 1x20"}, '{dag_id="d"} 1'),
        (
            read_expression("Failures", 1),
            {
                'airflow_ti_finish{state="failed",dag_id="d"}': "_x99 2x20",
                'airflow_ti_finish{state="success"}': "7x119",
            },
            '{state="failed"} 2',
        ),
        (
            read_expression("Spot saving"),
            {
                'airflow_leeway_training_billable_s{model="m"}': "_x99 30x20",
                'airflow_leeway_training_training_s{model="m"}': "_x99 100x20",
            },
            '{model="m"} 0.7',
        ),
        (
            read_expression("Time in queues of AWS Batch, a day", 1),
            {
                'airflow_leeway_training_queue_s{model="m"}': "_x99 90x20",
                'airflow_leeway_training_jobs{model="m"}': "_x99 3x20",
                'airflow_leeway_training_jobs{model="without a queue"}': "_x99 3x20",
            },
            '{model="m"} 30',
        ),
        (
            read_expression("Task duration, 95th percentile"),
            {
                'airflow_task_duration_bucket{dag_id="d",task_id="t",le="1"}': "_x99 0x2",
                'airflow_task_duration_bucket{dag_id="d",task_id="t",le="2"}': "_x99 1x2",
                'airflow_task_duration_bucket{dag_id="d",task_id="t",le="+Inf"}': "_x99 1x2",
            },
            '{dag_id="d", task_id="t"} 1.95',
        ),
    ],
)
def test_panel_includes_the_first_event_of_a_counter(expression, series, sample, tmp_path):
    if not shutil.which("promtool"):
        pytest.skip("promtool is missing: apt-get install prometheus")
    labels, value = sample.rsplit(" ", 1)
    minutes = max(sum(int(n) + 1 for n in re.findall(r"x(\d+)", values)) for values in series.values()) - 1
    case: dict[str, Any] = {"expr": f"round({expression}, 0.01)", "eval_time": f"{minutes}m"}
    case["exp_samples"] = [{"labels": labels, "value": float(value)}]
    input_series = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": input_series, "promql_expr_test": [case]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"tests": [test]}))
    result = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
