"""Test the estimates from past jobs of the ledger."""

from typing import Any

import pytest

from pipelines.errors import DataError
from pipelines.instances.catalogue import find_instance
from pipelines.planning.recommendation.data_size import GROWTH
from pipelines.planning.recommendation.measured import MeasuredWorkload, build_measured_workload
from pipelines.planning.recommendation.past_jobs import select_rows
from pipelines.planning.recommendation.workloads import Estimate, Infeasibility, Machines
from tests.tools.ledger_rows import make_row


def estimate(workload: MeasuredWorkload, name: str, count: int = 1) -> Estimate | Infeasibility:
    return workload.estimate(Machines(find_instance(name), count))


def get_seconds(workload: MeasuredWorkload, name: str) -> float:
    result = estimate(workload, name)
    assert isinstance(result, Estimate), result
    assert result.low_s <= result.seconds <= result.high_s
    return result.seconds


def get_reason(workload: MeasuredWorkload, name: str) -> str:
    result = estimate(workload, name)
    assert isinstance(result, Infeasibility), result
    return result.reason


def test_the_newest_jobs_on_the_newest_machines_are_the_measure() -> None:
    rows = [make_row(n, training_s=100 * n) for n in range(1, 8)]
    rows += [make_row(8, instance_type="ml.m5.large", training_s=50), make_row(9, training_s=1_000)]
    workload = build_measured_workload(rows, "flights")
    assert (workload.past_type.name, workload.seconds, workload.jobs) == ("ml.m5.2xlarge", 600, 5)
    assert workload.spread == pytest.approx(1_000 / 600)


@pytest.mark.parametrize(
    ("cpu_mean", "name", "seconds"),
    [
        (200, "ml.m5.4xlarge", 3_600),  # two busy vCPUs of eight: more of them do not help
        (200, "ml.m5.xlarge", 3_600),  # and four are enough
        (200, "ml.m5.large", 3_600),
        (600, "ml.m5.xlarge", 3_600 * 6 / 4),
        (790, "ml.m5.4xlarge", 3_600 * 0.5**0.5),  # all were busy: between no gain and twice as fast
        (None, "ml.m5.4xlarge", 3_600),
        (None, "ml.m5.xlarge", 7_200),
    ],
)
def test_the_use_of_vcpus_decides_the_time_on_other_sizes(cpu_mean: float, name: str, seconds: float) -> None:
    workload = build_measured_workload([make_row(cpu_mean=cpu_mean, memory_peak=5)], "flights")
    assert get_seconds(workload, name) == pytest.approx(seconds)


def test_machines_on_which_the_model_ran_are_not_scaled() -> None:
    rows = [make_row(1, instance_type="ml.c5.xlarge", training_s=5_000), make_row(2, cpu_mean=100, memory_peak=5)]
    assert get_seconds(build_measured_workload(rows, "flights"), "ml.c5.xlarge") == 5_000


def test_the_band_has_the_scatter_of_the_jobs_on_the_same_machines() -> None:
    rows = [
        make_row(n, instance_type="ml.c5.xlarge", training_s=seconds)
        for n, seconds in ((1, 500), (2, 1_000), (3, 2_000))
    ]
    rows += [make_row(n, cpu_mean=100, memory_peak=5) for n in (4, 5)]
    workload = build_measured_workload(rows, "flights")
    result = estimate(workload, "ml.c5.xlarge")
    assert isinstance(result, Estimate) and (result.low_s, result.seconds, result.high_s) == (500, 1_000, 2_000)
    assert workload.spread == 1, "the newest machines have no scatter"


def test_memory_that_past_jobs_used_must_fit() -> None:
    workload = build_measured_workload([make_row(memory_peak=41)], "flights")
    assert "past jobs used 13.1 GiB of memory" in get_reason(workload, "ml.m5.xlarge")
    assert "would fit with 16 GiB or more" in get_reason(workload, "ml.m5.xlarge")
    get_seconds(workload, "ml.r5.xlarge")
    unknown = build_measured_workload([make_row()], "flights")
    assert "what past jobs used is not known" in get_reason(unknown, "ml.m5.xlarge")


def test_gpus() -> None:
    row = make_row(instance_type="ml.g5.xlarge", gpu_mean=95, gpu_memory_peak=80, memory_peak=50)
    workload = build_measured_workload([row], "flights")
    assert get_reason(workload, "ml.m5.large").startswith("it has no GPU")
    assert "of memory of each GPU" in get_reason(workload, "ml.g4dn.xlarge")
    assert "do not run on Trainium" in get_reason(workload, "ml.trn1.2xlarge")
    assert get_seconds(workload, "ml.g6.2xlarge") == pytest.approx(3_600 * (70 / 121) ** 0.5)
    small = build_measured_workload([{**row, "gpu_memory_peak": 20}], "flights")
    assert get_seconds(small, "ml.g4dn.xlarge") == pytest.approx(3_600 * 70 / 65)
    unknown = build_measured_workload([{**row, "gpu_mean": None}], "flights")
    assert get_seconds(unknown, "ml.g6.2xlarge") == 3_600, "whether a faster GPU helps is not known"
    result = estimate(unknown, "ml.g6.2xlarge")
    assert isinstance(result, Estimate) and result.low_s < 3_600 * 70 / 121
    four = build_measured_workload([{**row, "instance_type": "ml.g5.12xlarge"}], "flights")
    assert "fewer GPUs (1)" in get_reason(four, "ml.g6.2xlarge")


def test_memory_of_several_gpus_does_not_hold_what_one_gpu_held() -> None:
    """A copy of the model is on each GPU: four of 22 GiB do not hold the 60 GiB that one of 80 GiB held."""
    row = make_row(instance_type="ml.p5.4xlarge", gpu_mean=50, gpu_memory_peak=75, memory_peak=5)
    workload = build_measured_workload([row], "flights")
    assert "60.0 GiB of memory of each GPU" in get_reason(workload, "ml.g5.12xlarge")
    assert "what past jobs used is not known" in get_reason(
        build_measured_workload([{**row, "gpu_memory_peak": None}], "flights"), "ml.g5.12xlarge"
    )
    get_seconds(build_measured_workload([{**row, "gpu_memory_peak": 20}], "flights"), "ml.g5.12xlarge")
    eight = build_measured_workload([{**row, "instance_type": "ml.p4d.24xlarge", "gpu_memory_peak": 8 * 75}], "flights")
    get_seconds(eight, "ml.p4de.24xlarge")
    assert "30.0 GiB of memory of each GPU" in get_reason(eight, "ml.g5.48xlarge")


def test_other_processors_and_unused_gpus_are_left_out() -> None:
    workload = build_measured_workload([make_row()], "flights")
    assert get_reason(workload, "ml.m8g.4xlarge") == "it is arm64, and past jobs ran on x86_64"
    assert "past jobs used none" in get_reason(workload, "ml.g5.4xlarge")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "no row"),
        ([make_row(status="Failed")], "1 not completed"),
        ([make_row(training_s=0), make_row(training_s=None)], "2 without a time"),
        ([make_row(instance_type="ml.p3.2xlarge"), make_row(instance_type="")], "2 on unknown or retired types"),
    ],
)
def test_a_ledger_with_gaps_is_one_clear_line(rows: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(DataError, match="no completed training of flights") as error:
        build_measured_workload(rows, "flights")
    assert text in error.value.message and "--params" in error.value.hint
    assert build_measured_workload([*rows, make_row(9)], "flights").jobs == 1, "the gaps are left out"


def test_rows_are_found_by_model_or_by_job() -> None:
    rows = [make_row(1), make_row(2, model="other"), make_row(3)]
    assert [row["name"] for row in select_rows(rows, "flights")] == ["job-1", "job-3"]
    assert [row["name"] for row in select_rows(rows, "job-2")] == ["job-2"]
    assert select_rows(rows, "nix") == []


GIB = 2**30


def make_sized_rows(*sizes: float, **fields: Any) -> list[dict[str, Any]]:
    """Return jobs that take 60 s, and 100 s for each GiB of their data."""
    return [
        make_row(n, training_s=round(60 + 100 * gib), input_bytes=round(gib * GIB), **fields)
        for n, gib in enumerate(sizes)
    ]


def test_the_size_of_the_data_decides_the_time() -> None:
    rows = make_sized_rows(1, 2, 4, 3, cpu_mean=150, memory_peak=5)
    workload = build_measured_workload(rows, "flights", 8 * GIB)
    assert workload.seconds == pytest.approx(860) and workload.has_size and workload.jobs == 4
    assert workload.describe() == (
        "flights: 860 s for 8 GiB of data, from 4 past job(s) with 1 GiB to 4 GiB on ml.m5.2xlarge, 1.5 busy vCPUs, "
        "1.6 GiB of memory"
    )
    result = estimate(workload, "ml.m5.2xlarge")
    assert isinstance(result, Estimate) and result.basis == "sized"
    assert (result.low_s, result.high_s) == pytest.approx((460, 460 * 2**GROWTH))
    scaled = estimate(workload, "ml.m5.large")
    assert isinstance(scaled, Estimate) and scaled.seconds == pytest.approx(860) and scaled.basis == "scaled"
    assert scaled.extrapolation == result.extrapolation and scaled.risk == result.risk != ""


def test_without_a_size_that_of_the_newest_job_counts() -> None:
    rows = make_sized_rows(1, 2, 4, 3)
    workload = build_measured_workload(rows, "flights")
    assert workload.seconds == pytest.approx(360)
    assert "360 s for 3 GiB of data, the newest known size, from 4 past job(s)" in workload.describe()
    unknown = [*rows, make_row(9, training_s=360)]
    assert build_measured_workload(unknown, "flights").data_bytes == 3 * GIB, "the newest one whose size is known"


def test_without_sizes_in_the_ledger_nothing_changes() -> None:
    rows = [make_row(n, training_s=1_000 + n) for n in range(7)]
    workload, planned = build_measured_workload(rows, "flights"), build_measured_workload(rows, "flights", 8 * GIB)
    assert workload.describe() == planned.describe() and "data" not in workload.describe()
    assert estimate(workload, "ml.m5.2xlarge") == estimate(planned, "ml.m5.2xlarge")
    assert estimate(workload, "ml.m5.large") == estimate(planned, "ml.m5.large")
    assert workload.seconds == 1_004 and not planned.has_size


def test_each_machine_has_its_own_line() -> None:
    other = make_sized_rows(1, 2, instance_type="ml.m5.4xlarge")
    slow = [{**row, "training_s": 2 * row["training_s"]} for row in other]
    workload = build_measured_workload([*slow, *make_sized_rows(1, 2, 4)], "flights", 8 * GIB)
    assert get_seconds(workload, "ml.m5.4xlarge") == pytest.approx(2 * 860)
    assert get_seconds(workload, "ml.m5.2xlarge") == pytest.approx(860)
