"""Test the summary of what jobs used, and its table."""

import io

import pytest
from rich.console import Console

from pipelines.costs.usage.columns import COLUMNS, DATA_WAIT_COLUMN
from pipelines.costs.usage.report import build_usage_table, summarize_usage


def make_row(**fields):
    return {
        "training_s": 100,
        "instance_count": 1,
        "first_capacity_s": 10.0,
        **dict.fromkeys((*COLUMNS, DATA_WAIT_COLUMN)),
        **fields,
    }


def test_mean_is_weighted_by_time_and_unknown_use_is_left_out():
    rows = [
        make_row(cpu_peak=50.0, cpu_mean=10.0, first_capacity_s=40.0),
        make_row(cpu_peak=20.0, cpu_mean=20.0, training_s=150, instance_count=2),
        make_row(),
    ]
    summary = summarize_usage(rows)
    assert (summary["jobs"], summary["queue_s"], summary["cpu_peak"]) == (3, 20.0, 50.0)
    assert summary["cpu_mean"] == pytest.approx((10 * 100 + 20 * 300) / 400)
    assert {summary[name] for name in COLUMNS if not name.startswith("cpu")} == {None}
    assert summarize_usage([])["cpu_peak"] is None


def test_table_shows_a_dash_where_nothing_is_known_and_0_where_it_is():
    summary = summarize_usage([make_row(cpu_peak=97.2, cpu_mean=45.4, gpu_peak=0.0, gpu_mean=0.0)])
    output = io.StringIO()
    Console(file=output, width=150).print(build_usage_table([{"model": "m", **summary}], ["model"], summary))
    cells = [cell.strip() for cell in output.getvalue().splitlines()[5].split("│")]
    assert cells[1:-1] == ["m", "1", "10", "45 / 97", "-", "-", "0 / 0", "-", "-"]


def test_share_of_data_waits_is_a_mean_of_the_trainings_that_report_it():
    rows = [make_row(data_wait_share=0.5), make_row(data_wait_share=0.1, training_s=300), make_row(training_s=9_000)]
    summary = summarize_usage(rows)
    assert summary[DATA_WAIT_COLUMN] == pytest.approx(0.2)
    assert summarize_usage(rows[2:])[DATA_WAIT_COLUMN] is None
    output = io.StringIO()
    Console(file=output, width=150).print(build_usage_table([{"model": "m", **summary}], ["model"], summary))
    assert output.getvalue().splitlines()[5].split("│")[-2].strip() == "20"
