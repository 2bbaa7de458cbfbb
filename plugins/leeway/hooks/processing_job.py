"""Processing jobs that build features: what goes into one, and what its end means for its task."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.endings import FOR_GOOD, KILL_LATE_S
from leeway.hooks.jobs import Jobs, holds
from leeway.hooks.machines import Machine
from leeway.hooks.running import ended_at, stopped_at
from leeway.hooks.watch import Event

INPUTS = ("AppSpecification", "ProcessingInputs")
"""Parts of the request that decide what features come out."""
BASE = "/opt/ml/processing"
ARCHIVE = "preprocess.pyz"
TOLD = re.compile(r"\[exit (\d+)\] (.*)", re.DOTALL)
"""ExitMessage of `pipelines.processing`."""
TRY_AGAIN = 75
"""Exit code of a step that a retry can help; see `pipelines.errors`."""


class ProcessingJobs(Jobs):
    """The processing jobs of one task."""

    kind = "processing"


def inputs(image: str, code: str, window: str, arguments: Sequence[str]) -> dict[str, Any]:
    """`INPUTS` of the request: the same ones give the same features.

    Args:
        image: of the container.
        code: s3:// prefix that has `ARCHIVE`.
        window: s3:// prefix of the packed window.
        arguments: of the step `preprocess`.
    """
    return {
        "AppSpecification": {
            "ImageUri": image,
            "ContainerEntrypoint": ["python3", f"{BASE}/input/code/{ARCHIVE}"],
            "ContainerArguments": list(arguments),
        },
        "ProcessingInputs": [_input("code", code), _input("window", window)],
    }


def output(uri: str) -> dict[str, Any]:
    """The part of the request that says where features and result go."""
    place = {"S3Uri": uri, "LocalPath": f"{BASE}/output", "S3UploadMode": "EndOfJob"}
    return {"ProcessingOutputConfig": {"Outputs": [{"OutputName": "output", "S3Output": place}]}}


def output_of(job: Mapping[str, Any]) -> str:
    """The s3:// prefix, without a slash at its end, where a job's output went."""
    return str(job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]).rstrip("/")


def on_demand(request: Mapping[str, Any]) -> Machine:
    """What the budget is asked for: the longest run of the request, whose machines are never spot."""
    machine, most_s = request["ProcessingResources"]["ClusterConfig"], request["StoppingCondition"]
    return Machine(
        instance_type=machine["InstanceType"],
        instance_count=machine["InstanceCount"],
        volume_size_gb=machine["VolumeSizeInGB"],
        spot=False,
        max_run_s=most_s["MaxRuntimeInSeconds"],
        max_wait_s=0,
    )


def is_same(there: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether a job had the inputs of the request."""
    return all(holds(there.get(key), request[key]) for key in INPUTS)


def seconds(job: Mapping[str, Any]) -> float:
    """How long an ended job had its machine."""
    began = job.get("ProcessingStartTime")
    return float((ended_at(job) - began).total_seconds()) if began else 0.0


def failure_of(job: Mapping[str, Any], event: Event) -> AirflowException | None:
    """What is to be raised for a job that did not complete; None where the same try goes on with the next one."""
    name = job["ProcessingJobName"]
    if event["cause"] == "deadline":
        return AirflowException(f"processing job {name} was stopped: {event['message']}.")
    if event["cause"] != "ended":
        return AirflowException(f"processing job {name} cannot be watched: {event['message']}")
    return _failed(job, name) if job["ProcessingJobStatus"] == "Failed" else _stopped(job, name, event)


def _failed(job: Mapping[str, Any], name: str) -> AirflowException:
    if told := TOLD.match(str(job.get("ExitMessage", ""))):
        text = f"processing job {name} failed: {told[2]}"
        return AirflowException(text) if int(told[1]) == TRY_AGAIN else AirflowFailException(text)
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    text = f"processing job {name} failed: {reason}"
    # The entry always leaves a message: without one it was killed (for its memory, say), or never began.
    killed = "AlgorithmError" in reason and re.search(r"\b(137|143)\b", reason)
    return AirflowFailException(text) if reason.startswith(FOR_GOOD) and not killed else AirflowException(text)


def _stopped(job: Mapping[str, Any], name: str, event: Event) -> AirflowException | None:
    most_s = job.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 0)
    if most_s and seconds(job) >= most_s:
        return AirflowFailException(
            f"processing job {name} was stopped after max_run_s ({most_s} s), before it was done: give a longer "
            "max_run_s, or a larger instance_type."
        )
    began = event["attached_at"]
    if began and stopped_at(job) < dt.datetime.fromisoformat(began) + dt.timedelta(seconds=KILL_LATE_S):
        return None  # by the clear that began this try
    return AirflowException(f"processing job {name} was stopped by somebody; a retry starts it again.")


def _input(name: str, uri: str) -> dict[str, Any]:
    source = {"S3Uri": uri, "LocalPath": f"{BASE}/input/{name}", "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "S3Input": source}
