"""Judges a candidate by the policy, against the champion where there is one. A "no" is a result, not an error.

In a backfill the champion is the one of the candidate's moment, not today's, which would bring the future into the
past. The verdict is written as a file, and onto the registered version where one is named. Idempotent.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import dataset
from pipelines.errors import DataError
from pipelines.gates import Check, Metrics, Policy
from pipelines.log import log

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.registry import Registry


class GateSpec(Spec):
    """What to judge, and by which policy."""

    dataset: str = "flights"
    """Dataset of the model."""
    evaluation: Path = Path("data/evaluation")
    """Folder that `evaluate` wrote."""
    features: Path = Path("data/features")
    """Folder with holdout/, for the champion to be scored on the same rows."""
    policy: Policy = Field(default_factory=Policy)
    """Bounds of the checks."""
    model_name: str = ""
    """Registered model; empty: no registry, so no champion to compare with."""
    version: str = ""
    """The candidate's version."""
    backfill: bool = False
    """Whether a backfill asks: then the champion is the newest that was trained as of an earlier moment."""
    verdict: Path = Path("data/verdict.json")
    """File to write."""


class GateResult(Result):
    """A verdict, as in the file."""

    passed: bool
    """Whether the candidate may be promoted."""
    reason: str
    """The failed checks in words."""
    checks: list[Check]
    """Every check with value, bound and reason."""
    champion: str = ""
    """Version that it was compared with; empty where there was none."""
    model_name: str = ""
    """Registered model that was judged."""
    version: str = ""
    """Version that was judged."""
    verdict: Path
    """The file."""


def run(spec: GateSpec) -> GateResult:
    """`spec.verdict` holds the verdict, and so do the version's tags.

    Raises:
        DataError: there is no evaluation, or no such version.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines import gates
    from pipelines.files import read_json, sha256, write_json

    told = read_json(spec.evaluation / "metrics.json", "the step `evaluate` writes it")
    if not isinstance(told, dict):
        raise DataError(f"{spec.evaluation}/metrics.json is no mapping of metrics.", "The step `evaluate` writes it.")
    registry = _registry(spec)
    champion = _champion(spec, registry) if registry else None
    newer = _days_newer(spec, registry, champion) if registry and champion else None
    # A champion of a later moment was trained on this very holdout: to compare with it would be unfair.
    fair = _metrics(spec, registry, champion) if registry and champion and (newer or 0) >= 0 else None
    checks = gates.judge(told, fair, spec.policy, newer)
    result = GateResult(
        passed=gates.passed(checks),
        reason=gates.words(checks),
        checks=checks,
        champion=str(champion.version) if champion else "",
        model_name=spec.model_name,
        version=spec.version,
        verdict=spec.verdict,
    )
    write_json(spec.verdict, result.model_dump(mode="json", exclude={"verdict"}))
    if registry:
        word = "passed" if result.passed else "failed"
        tags = {"leeway.verdict": word, "leeway.verdict_reason": result.reason}
        registry.tag(spec.model_name, spec.version, tags | {"leeway.verdict_digest": sha256(spec.verdict)})
    log.info("verdict: %s. %s", "yes" if result.passed else "NO", result.reason)
    return result


def _registry(spec: GateSpec) -> Registry | None:
    """The registry, with the candidate known to be in it; None where no model is named."""
    if not spec.model_name:
        return None
    from pipelines.registry import Registry

    registry = Registry.open()
    registry.version(spec.model_name, spec.version)
    return registry


def _champion(spec: GateSpec, registry: Registry) -> ModelVersion | None:
    """The champion; none where it is the candidate itself."""
    if spec.backfill:
        from pipelines.registry import as_of

        return registry.champion_before(spec.model_name, as_of(registry.version(spec.model_name, spec.version)))
    found = registry.champion(spec.model_name)
    return None if found is None or str(found.version) == spec.version else found


def _days_newer(spec: GateSpec, registry: Registry, champion: ModelVersion) -> int:
    from pipelines.registry import as_of

    return (as_of(registry.version(spec.model_name, spec.version)) - as_of(champion)).days


def _metrics(spec: GateSpec, registry: Registry, champion: ModelVersion) -> Metrics:
    """The champion's metrics on the candidate's holdout."""
    import pandas as pd

    from pipelines import evaluation

    rows = pd.read_parquet(spec.features / "holdout" / "data.parquet")
    label = rows[dataset(spec.dataset).label].to_numpy(dtype=float)
    told = evaluation.metrics(label, registry.score(champion, rows), float(label.mean()))
    log.info("champion is version %s: AUC %.4f on the same %d rows", champion.version, told["auc"], len(rows))
    return told
