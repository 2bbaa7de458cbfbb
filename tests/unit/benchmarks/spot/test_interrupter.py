"""Test that the interruptions of a job do not depend on how often the benchmark has looked."""

from typing import Any

from benchmarks.spot.interrupter import Interrupter


class EndedJobs:
    """A SageMaker whose jobs have all ended."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def list_training_jobs(self, **_: Any) -> dict[str, Any]:
        return {"TrainingJobSummaries": [{"TrainingJobName": name} for name in self.names]}

    def describe_training_job(self, **_: Any) -> dict[str, Any]:
        return {"SecondaryStatusTransitions": [], "TrainingJobStatus": "Completed"}


def draw_plans(looks: int) -> dict[str, list[float]]:
    sagemaker = EndedJobs()
    interrupter = Interrupter(sagemaker, "http://127.0.0.1:9", 60.0, [])
    for name in ("bench-1", "bench-2"):
        sagemaker.names.append(name)
        for _ in range(looks):
            interrupter.request_next_interruptions()
    return interrupter.plans


def test_plans_are_drawn_once_for_each_job():
    assert draw_plans(looks=1) == draw_plans(looks=5)
