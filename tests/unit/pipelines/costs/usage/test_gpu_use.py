"""Test when jobs are named because they leave most of their GPUs unused."""

import datetime as dt

import pytest

from pipelines.costs.usage.columns import DATA_WAIT_COLUMN
from pipelines.costs.usage.gpu_use import list_gpu_advice
from tests.tools.ledger_rows import NOW, make_jobs

LITTLE = {"gpu_mean": 60.0, "gpu_peak": 300.0, "cpu_peak": 400.0, "memory_peak": 8.0, "gpu_memory_peak": 120.0}
"""What a job used: 15 % of 4 GPUs on average; at its peak 4 vCPUs, 15 GiB of memory, and 30 % of the GPUs' memory."""


def advise(*changes, **fields):
    return list_gpu_advice(
        make_jobs(*changes, **{"instance_type": "ml.g5.12xlarge", "cost_usd": 7.0, **LITTLE, **fields}), NOW
    )


def test_jobs_that_use_few_gpus_are_named_with_their_evidence_and_a_type_that_is_enough():
    assert advise() == [
        "The last 5 training jobs of model m on ml.g5.12xlarge used 15% of its 4 GPUs on average (2026-11-15 to "
        "2026-11-19); the rest cost about 29.75 USD: ml.g5.2xlarge (8 vCPUs, 32 GiB, 1 x A10G with 22 GiB) would be "
        "enough by these figures, and would have cost about 27.52 USD less, if the jobs take as long there; or larger "
        "batches may use more of its 4 GPUs."
    ]


def test_rest_of_a_year_is_named_after_a_week():
    # 5.95 and 5.504 USD a job, and 19.5 jobs in 20 days.
    (sentence,) = advise(count=20)
    assert "29.75 USD, or 2,117.46 USD a year at 0.97 job(s) a day: " in sentence
    assert "27.52 USD less, or 1,958.82 USD a year at 0.97 job(s) a day, if the jobs take as long there; " in sentence


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_memory_peak": 330.0},  # 82 % of the memory of each GPU
        {"gpu_memory_peak": None},
        {"memory_peak": None},
        {"cpu_peak": None},
        {"cpu_peak": 5_200.0},
    ],
)
def test_no_type_is_named_that_lacks_what_one_job_needed(change):
    (sentence,) = advise(change)
    assert sentence.endswith("cost about 29.75 USD: larger batches may use more of its 4 GPUs.")


def test_what_the_jobs_needed_decides_which_type_is_named():
    assert ": ml.g5.4xlarge (" in advise({"memory_peak": 14.0})[0], "27 GiB are more than 80 % of 32"
    assert "would be enough" not in advise(*[{"gpu_mean": 90.0}] * 5)[0], "0.9 of a GPU is more than 80 % of one"


def test_gpu_without_bf16_replaces_only_one_without_bf16():
    """A T4 costs less than an A10G, but a training in bf16 does not run on it."""
    assert "T4" not in advise()[0]
    assert "1 x T4" in advise(instance_type="ml.g4dn.12xlarge")[0]


def test_one_gpu_has_its_own_words():
    (sentence,) = advise(instance_type="ml.g5.xlarge", gpu_mean=30.0, gpu_memory_peak=95.0, cpu_peak=100.0)
    assert "used 30% of its GPU on average" in sentence and sentence.endswith("larger batches may use more of its GPU.")


@pytest.mark.parametrize(
    "change",
    [{"gpu_mean": None}, {"gpu_mean": 200.0}, {"status": "Failed"}, {"instance_type": "ml.g5.2xlarge"}],
)
def test_one_job_without_evidence_is_enough_to_say_nothing(change):
    assert advise(change) == []
    assert advise({"gpu_mean": 199.0}), "the control"


@pytest.mark.parametrize(
    "fields",
    [
        {"count": 4},
        {"created": NOW - dt.timedelta(91)},
        {"instance_type": "ml.m5.2xlarge"},
        {"instance_type": "ml.x9.2xlarge"},
        {"cost_usd": 0.0001},
        {DATA_WAIT_COLUMN: 0.3},  # data_waits names the cause
    ],
)
def test_nothing_is_said_about_few_old_cheap_or_waiting_jobs_or_without_gpus(fields):
    assert advise(**fields) == []
