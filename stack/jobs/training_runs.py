"""What MLflow knows of the flights models, one row a training run."""

from __future__ import annotations

from datetime import date
from typing import Any

import requests
from pydantic import BaseModel

from stack.errors import UnavailableError

MODEL = "flights"
"""Name of the registered model."""
METRICS = ("holdout_auc", "holdout_pr_auc", "holdout_brier", "holdout_log_loss")
_TIMEOUT_S = 30.0


class Row(BaseModel):
    """One training run as its model version tells it. Empty where there is no version."""

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


def rows(url: str, as_of: list[date]) -> list[Row]:
    """A row for each moment, in their order: the newest version that was trained as of it.

    Raises:
        UnavailableError: MLflow does not answer as it should.
    """
    model = _get(url, "registered-models/get", name=MODEL).get("registered_model", {})
    aliases = {(one["alias"], str(one["version"])) for one in model.get("aliases", [])}
    newest = {tags.get("leeway.as_of", ""): (one, tags) for one, tags in _versions(url)}
    return [_row(url, moment, *newest.get(moment.isoformat(), ({}, {})), aliases) for moment in as_of]


def _versions(url: str) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """All versions with their tags, the newest last."""
    found = _get(url, "model-versions/search", filter=f"name='{MODEL}'", max_results="1000").get("model_versions", [])
    found.sort(key=lambda one: int(one["version"]))
    return [(one, {tag["key"]: tag["value"] for tag in one.get("tags", [])}) for one in found]


def _row(url: str, as_of: date, version: dict[str, Any], tags: dict[str, str], aliases: set[tuple[str, str]]) -> Row:
    if not version:
        return Row(as_of=as_of)
    number = str(version["version"])
    known = {key.removeprefix("leeway."): value for key, value in tags.items() if key.startswith("leeway.")}
    return Row(
        **{key: value for key, value in known.items() if key in Row.model_fields and key != "as_of"},
        as_of=as_of,
        version=number,
        aliases=sorted(alias for alias, of in aliases if of == number),
        metrics=_metrics(url, version.get("run_id", "")),
    )


def _metrics(url: str, run_id: str) -> dict[str, float]:
    if not run_id:
        return {}
    data = _get(url, "runs/get", run_id=run_id).get("run", {}).get("data", {})
    found = {one["key"]: float(one["value"]) for one in data.get("metrics", [])}
    return {name: found[name] for name in METRICS if name in found}


def _get(url: str, call: str, **query: str) -> dict[str, Any]:
    try:
        with requests.Session() as session:
            session.trust_env = False  # no proxy between us and this machine
            answer = session.get(f"{url}/api/2.0/mlflow/{call}", params=query, timeout=_TIMEOUT_S)
    except requests.RequestException as error:
        raise UnavailableError(f"MLflow at {url} does not answer ({type(error).__name__}).") from None
    if answer.status_code == requests.codes.not_found:
        return {}
    if not answer.ok:
        raise UnavailableError(f"MLflow refused {call} (HTTP {answer.status_code}): {answer.text[:300]}")
    found: dict[str, Any] = answer.json()
    return found
