"""Test the learning rate of a step, and the metrics between two lines of the log."""

from __future__ import annotations

import pytest

from tests.tools.language_model import REASON

torch = pytest.importorskip("torch", reason=REASON)

from pipelines.container.torch.language.documents import Document  # noqa: E402
from pipelines.container.torch.language.hyperparameters import Hyperparameters  # noqa: E402
from pipelines.container.torch.language.progress import Progress, compute_rate  # noqa: E402
from pipelines.container.torch.language.sequences import build_batch  # noqa: E402
from pipelines.container.torch.processes import join_processes  # noqa: E402

BATCH = build_batch([[Document(torch.arange(5, dtype=torch.int32))]], 8, 0)
"""8 tokens, of which 4 have a target."""


def test_learning_rate_rises_and_falls() -> None:
    hyperparameters = Hyperparameters(learning_rate=0.1, warmup_share=0.2)
    rates = [compute_rate(step, 10, hyperparameters) for step in range(10)]
    assert rates[:3] == pytest.approx([0.05, 0.1, 0.1])
    assert rates[2:] == sorted(rates[2:], reverse=True) and 0 < rates[-1] < 0.01
    assert compute_rate(0, 1, Hyperparameters(learning_rate=0.1, warmup_share=0)) == 0.1


def test_metrics_are_those_since_the_last_line() -> None:
    with join_processes() as processes:
        progress = Progress(processes, token_flops=6e9, peak_flops=1e12)
        progress.add(8.0, BATCH)
        progress.add(4.0, BATCH)
        metrics = progress.summarize()
        assert metrics["loss"] == 12 / 8
        assert metrics["mfu"] == pytest.approx(6e9 * metrics["tokens_per_s"] / 1e12)
        assert metrics["memory_mib"] > 1
        progress.add(2.0, BATCH)
        assert progress.summarize()["loss"] == 2 / 4
        assert "mfu" not in _measure(Progress(processes, token_flops=0, peak_flops=0))


def test_sums_are_restored() -> None:
    with join_processes() as processes:
        progress = Progress(processes, 0, 0)
        progress.add(8.0, BATCH)
        resumed = Progress(processes, 0, 0)
        resumed.restore(progress.collect())
        resumed.add(4.0, BATCH)
        assert resumed.summarize()["loss"] == 12 / 8


def _measure(progress: Progress) -> dict[str, float]:
    progress.add(1.0, BATCH)
    return progress.summarize()
