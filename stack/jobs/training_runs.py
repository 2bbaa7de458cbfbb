"""Read the training runs of a model from MLflow's REST API."""

from __future__ import annotations

from datetime import date
from typing import Any

import requests
from pydantic import BaseModel

from stack.errors import UnavailableError

METRIC_PREFIX = "holdout_"
"""Prefix of the names of the holdout's metrics in MLflow."""
_TIMEOUT_S = 30.0


class TrainingRun(BaseModel):
    """A training run and its model version. All fields but `as_of` are empty if no version has this `as_of`.

    The fields from `window` to `verdict` have the names of the version's tags, without the prefix `leeway.`.
    """

    as_of: date
    version: str = ""
    aliases: list[str] = []
    window: str = ""
    rows_train: str = ""
    rows_holdout: str = ""
    data_version: str = ""
    training_job: str = ""
    verdict: str = ""
    metrics: dict[str, float] = {}


def read_training_runs(url: str, model_name: str, as_of_days: list[date]) -> list[TrainingRun]:
    """Return, for each day, the newest model version that was trained as of this day, in the order of the days.

    Raises:
        UnavailableError: MLflow does not answer, or refuses. A retry can help.
    """
    model = _get(url, "registered-models/get", name=model_name).get("registered_model", {})
    aliases = {(alias["alias"], str(alias["version"])) for alias in model.get("aliases", [])}
    newest_versions = {
        tags.get("leeway.as_of", ""): (version, tags) for version, tags in _read_versions(url, model_name)
    }
    return [
        _build_training_run(url, day, *newest_versions.get(day.isoformat(), ({}, {})), aliases) for day in as_of_days
    ]


def _read_versions(url: str, model_name: str) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Return the versions of the model, at most 1,000, with their tags; the newest last."""
    query = {"filter": f"name='{model_name}'", "max_results": "1000"}
    versions = _get(url, "model-versions/search", **query).get("model_versions", [])
    versions.sort(key=lambda version: int(version["version"]))
    return [(version, {tag["key"]: tag["value"] for tag in version.get("tags", [])}) for version in versions]


def _build_training_run(
    url: str, as_of: date, version: dict[str, Any], tags: dict[str, str], aliases: set[tuple[str, str]]
) -> TrainingRun:
    if not version:
        return TrainingRun(as_of=as_of)
    number = str(version["version"])
    values = {key.removeprefix("leeway."): value for key, value in tags.items() if key.startswith("leeway.")}
    return TrainingRun(
        **{key: value for key, value in values.items() if key in TrainingRun.model_fields and key != "as_of"},
        as_of=as_of,
        version=number,
        aliases=sorted(alias for alias, alias_version in aliases if alias_version == number),
        metrics=_read_metrics(url, version.get("run_id", "")),
    )


def _read_metrics(url: str, run_id: str) -> dict[str, float]:
    if not run_id:
        return {}
    data = _get(url, "runs/get", run_id=run_id).get("run", {}).get("data", {})
    values = {metric["key"]: float(metric["value"]) for metric in data.get("metrics", [])}
    names = [name for name in values if name.startswith(METRIC_PREFIX)]
    return {name.removeprefix(METRIC_PREFIX): values[name] for name in names}


def _get(url: str, call: str, **query: str) -> dict[str, Any]:
    """Return the response of MLflow to a call; {} if the object does not exist."""
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy cannot reach this machine's loopback addresses
            response = session.get(f"{url}/api/2.0/mlflow/{call}", params=query, timeout=_TIMEOUT_S)
    except requests.RequestException as error:
        raise UnavailableError(f"MLflow at {url} does not answer ({type(error).__name__}).") from None
    if response.status_code == requests.codes.not_found:
        return {}
    if not response.ok:
        raise UnavailableError(f"MLflow answered HTTP {response.status_code} to {call}: {response.text[:300]}")
    body: dict[str, Any] = response.json()
    return body
