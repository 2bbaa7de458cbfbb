"""Interrupt the first attempts of each job of a benchmark, each at a random time within its script's duration."""

from __future__ import annotations

import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

SEED = 13


class Interrupter:
    """Interrupt the first 1 to 5 attempts of each job, each at a random time.

    Args:
        sagemaker: client of SageMaker.
        url: address of drydock.
        duration_s: duration of the jobs' training script without interruption. An attempt is interrupted before this
            time.
        ignored_jobs: names of jobs that are not interrupted.
    """

    def __init__(self, sagemaker: Any, url: str, duration_s: float, ignored_jobs: Iterable[str]) -> None:
        self._sagemaker, self._url, self._ignored_jobs = sagemaker, url, set(ignored_jobs)
        self._generator, self._duration_s = random.Random(SEED), duration_s
        self.plans: dict[str, list[float]] = {}
        """For each job, the seconds after which its first, second, ... attempt is interrupted."""
        self._request_counts: dict[str, int] = {}

    def request_next_interruptions(self) -> None:
        """Request the planned interruptions of new attempts.

        An attempt is new if it began, or began to wait for capacity, after the last call.
        """
        for job in list_jobs(self._sagemaker):
            if job in self._ignored_jobs:
                continue
            if job not in self.plans:
                self.plans[job] = self._draw_plan()
            plan = self.plans[job]
            description = self._sagemaker.describe_training_job(TrainingJobName=job)
            attempt = sum(item["Status"] == "Interrupted" for item in description["SecondaryStatusTransitions"])
            has_ended = description["TrainingJobStatus"] in ("Completed", "Failed", "Stopped")
            # The plan interrupts this attempt, and its interruption is not requested yet.
            if not has_ended and self._request_counts.get(job, 0) == attempt < len(plan):
                self._request_interruption(job, plan[attempt])
                self._request_counts[job] = attempt + 1

    def _draw_plan(self) -> list[float]:
        """Draw how many attempts of a job are interrupted (1 to 5), and after how many seconds each."""
        return [self._generator.uniform(0, self._duration_s) for _ in range(self._generator.randint(1, 5))]

    def _request_interruption(self, job: str, after_s: float) -> None:
        notice_s = self._generator.choice([0, 30])
        body = {"job": job, "after_s": after_s, "no_capacity_s": 0.2, "notice_s": notice_s}
        try:
            with urllib.request.urlopen(f"{self._url}/drydock/interrupt", json.dumps(body).encode()):
                pass
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:  # a conflict means that the job has ended meanwhile
                raise


def list_jobs(sagemaker: Any) -> list[str]:
    """Return the names of the newest 20 jobs of the benchmark, the newest first."""
    page = sagemaker.list_training_jobs(
        NameContains="bench", SortBy="CreationTime", SortOrder="Descending", MaxResults=20
    )
    return [job["TrainingJobName"] for job in page["TrainingJobSummaries"]]
