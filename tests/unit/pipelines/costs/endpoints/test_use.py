"""Test the summary of what endpoints used, and its table."""

import io

import pytest
from rich.console import Console

from pipelines.costs.endpoints.report import group_endpoint_rows, sum_endpoint_rows
from pipelines.costs.endpoints.use import build_endpoint_use_table, summarize_endpoint_use
from pipelines.costs.usage.columns import COLUMNS
from tests.unit.pipelines.costs.ledger_rows import make_endpoint_row


def make_row(**fields):
    return make_endpoint_row(**{"hours": 2.0, "instance_h": 2.0, "observed_h": 2.0, **fields})


def test_mean_is_weighted_by_observed_instance_hours_and_unknown_use_is_left_out():
    rows = [
        make_row(cpu_peak=50.0, cpu_mean=10.0),
        make_row(cpu_peak=20.0, cpu_mean=20.0, instance_h=6.0, observed_h=1.0),
        make_row(observed_h=None),
    ]
    summary = summarize_endpoint_use(rows)
    assert (summary["observed_h"], summary["cpu_peak"]) == (3.0, 50.0)
    assert summary["cpu_mean"] == pytest.approx((10 * 2 + 20 * 1 * 3) / 5)
    assert {summary[name] for name in COLUMNS if not name.startswith("cpu")} == {None}
    assert summarize_endpoint_use([])["cpu_peak"] is None
    assert sum_endpoint_rows(rows)["cpu_mean"] == summary["cpu_mean"]


def test_hours_without_an_instance_do_not_count():
    half = {"instance_h": 1.0, "zero_h": 1.0, "observed_h": 1.0}
    rows = [make_row(cpu_peak=50.0, cpu_mean=10.0, **half), make_row(cpu_peak=50.0, cpu_mean=40.0)]
    assert summarize_endpoint_use(rows)["cpu_mean"] == pytest.approx((10 * 1 + 40 * 2) / 3)


def test_table_shows_a_dash_where_nothing_is_known_and_0_where_it_is():
    rows = [make_row(cpu_peak=97.2, cpu_mean=45.4, gpu_peak=0.0, gpu_mean=0.0)]
    table = build_endpoint_use_table(group_endpoint_rows(rows, ["model"]), ["model"], summarize_endpoint_use(rows))
    output = io.StringIO()
    Console(file=output, width=150).print(table)
    cells = [cell.strip() for cell in output.getvalue().splitlines()[5].split("│")]
    assert cells[1:-1] == ["m", "2.0", "45 / 97", "-", "-", "0 / 0", "-"]
