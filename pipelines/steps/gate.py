"""Judges a candidate by the policy, against the champion where there is one. A "no" is a result, not an error.

In a backfill the champion is the one of the candidate's moment, not today's, which would bring the future into the
past. The verdict is written as a file, and onto the registered version where one is named. Idempotent.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.dataset import Dataset, load_dataset
from pipelines.errors import DataError
from pipelines.evaluation.gates import Approval, Check, Outcome, Policy
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.evaluation.gates.holdout import Holdout
    from pipelines.evaluation.gates.serving import Measured
    from pipelines.registry.versions import Registry

LAST_DAYS = 7
"""Of the training rows: their rate is what a model that only follows the season would say."""


class GateSpec(Spec):
    """What to judge, and by which policy."""

    dataset: str = "flights"
    """Dataset of the model."""
    evaluation: Path = Path("data/evaluation")
    """Folder that `evaluate` wrote."""
    features: Path = Path("data/features")
    """Folder with train/ and holdout/, as `preprocess` wrote it."""
    policy: Policy = Field(default_factory=Policy)
    """What a candidate must show."""
    model_name: str = ""
    """Registered model; empty: no registry, so no champion to compare with."""
    version: str = ""
    """The candidate's version."""
    approval: Approval = "none"
    """When a person has to agree: never; required, to each pass; when_undecided. A backfill asks nobody."""
    approval_timeout_h: float = Field(default=72.0, gt=0, allow_inf_nan=False)
    """Hours that an answer is waited for."""
    approval_default: Literal["approve", "reject"] = "reject"
    """What silence means then."""
    backfill: bool = False
    """Whether a backfill asks: then the champion is the newest that was trained as of an earlier moment."""
    verdict: Path = Path("data/verdict.json")
    """File to write."""
    report: Path = Path("data/report")
    """Folder to write: report.html, which shows the verdict and what is behind it, and its pictures."""


class GateResult(Result):
    """A verdict, as in the file."""

    passed: bool
    """Whether the candidate may be promoted."""
    outcome: Outcome
    """passed, failed, or undecided: too little data to say, which is no pass."""
    reason: str
    """The failed and the open checks in words."""
    checks: list[Check]
    """Every check with value, interval, bound and reason."""
    asks: bool = False
    """Whether a person has to agree before it is promoted."""
    approval_timeout_h: float = 72.0
    """Hours that an answer is waited for."""
    approval_default: Literal["approve", "reject"] = "reject"
    """What silence means then."""
    model_digest: str = ""
    """SHA-256 of the model's files as they were judged; empty of one that is not registered."""
    facts: dict[str, str] = Field(default_factory=dict)
    """What the candidate is, by name."""
    differs: dict[str, list[str]] = Field(default_factory=dict)
    """What is otherwise than with the champion: name to the champion's and the candidate's."""
    champion: str = ""
    """Version that it was compared with; empty where there was none."""
    model_name: str = ""
    """Registered model that was judged."""
    version: str = ""
    """Version that was judged."""
    verdict: Path
    """The file."""
    report: str
    """Address of the page that shows it."""


def run(spec: GateSpec) -> GateResult:
    """`spec.verdict` holds the verdict, and so do the version's tags.

    Raises:
        DataError: there is no evaluation or no such version, the holdout cannot be judged, or the champion cannot be
            loaded any more. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.evaluation import gates
    from pipelines.evaluation.gates import candidates
    from pipelines.evaluation.gates.judging import Evidence, judge
    from pipelines.evaluation.report.making import make
    from pipelines.system.files import sha256, write_json

    registry = _registry(spec)
    candidate = registry.version(spec.model_name, spec.version) if registry else None
    champion = _champion(spec, registry) if registry else None
    newer = _days_newer(spec, registry, champion) if registry and champion else None
    # A champion of a later moment was trained on this very holdout: to compare with it would be unfair.
    fair = champion if (newer or 0) >= 0 else None
    told = Evidence(
        rows=_holdout(spec, registry, fair),
        features=tuple(load_dataset(spec.dataset).features),
        days_newer=newer,
        packaged=_packaged(spec, registry) if registry and spec.policy.serving else None,
        cost_usd=candidates.cost(candidate) if candidate else None,
    )
    judged = judge(told, spec.policy)
    checks = judged.checks
    outcome = gates.verdict(checks)
    result = GateResult(
        passed=outcome == gates.PASSED,
        outcome=outcome,
        reason=gates.words(checks),
        checks=checks,
        asks=_asks(spec, registry, outcome),
        model_digest=candidates.judged_digest(registry, candidate) if registry and candidate else "",
        approval_timeout_h=spec.approval_timeout_h,
        approval_default=spec.approval_default,
        facts=candidates.facts(candidate, told.rows),
        differs=candidates.differs(registry, candidate, champion) if registry and candidate and champion else {},
        champion=str(champion.version) if champion else "",
        model_name=spec.model_name,
        version=spec.version,
        verdict=spec.verdict,
        report=_address(spec),
    )
    written = result.model_dump(mode="json", exclude={"verdict", "report"})
    make(spec.report, written, told.rows, judged, spec.policy, _importance(spec.evaluation), result.facts)
    # A retry, or another run that trained the same, gives the same verdict: a clock that demands nothing is not in it.
    lasting = [one.model_dump(mode="json") for one in checks if not (one.timed and one.outcome == gates.REPORTED)]
    write_json(spec.verdict, {**written, "checks": lasting})
    if registry:
        from pipelines.registry import lifecycle

        _publish(spec, registry)
        digest = sha256(spec.verdict)
        tags = {"leeway.verdict": outcome, "leeway.verdict_reason": result.reason, "leeway.verdict_digest": digest}
        registry.tag(spec.model_name, spec.version, tags)
        lifecycle.judged(registry, result, outcome, digest, backfill=spec.backfill)
    log.info("verdict: %s. %s", {"passed": "yes", "failed": "NO"}.get(outcome, "UNDECIDED"), result.reason)
    return result


def _registry(spec: GateSpec) -> Registry | None:
    """The registry, with the candidate known to be in it; None where no model is named."""
    if not spec.model_name:
        return None
    from pipelines.registry.versions import Registry

    registry = Registry.open()
    registry.version(spec.model_name, spec.version)
    return registry


def _champion(spec: GateSpec, registry: Registry) -> ModelVersion | None:
    """The champion; none where it is the candidate itself."""
    if spec.backfill:
        from pipelines.registry.versions import as_of

        return registry.champion_before(spec.model_name, as_of(registry.version(spec.model_name, spec.version)))
    found = registry.champion(spec.model_name)
    return None if found is None or str(found.version) == spec.version else found


def _days_newer(spec: GateSpec, registry: Registry, champion: ModelVersion) -> int:
    from pipelines.registry.versions import as_of

    return (as_of(registry.version(spec.model_name, spec.version)) - as_of(champion)).days


def _holdout(spec: GateSpec, registry: Registry | None, champion: ModelVersion | None) -> Holdout:
    """The holdout's rows, with what both models say of them."""
    from pipelines.evaluation.gates.holdout import Holdout

    chosen = load_dataset(spec.dataset)
    rows, train = (_read(spec.features / split / "data.parquet", "preprocess") for split in ("holdout", "train"))
    return Holdout(
        label=rows[chosen.label].to_numpy(dtype=float),
        candidate=_scores(spec, chosen, rows),
        champion=registry.score(champion, rows) if registry and champion else None,
        rows=rows,
        base_rate=float(train[chosen.label].mean()),
        last_week=_last_rate(train, chosen.label),
    )


def _scores(spec: GateSpec, chosen: Dataset, rows: pd.DataFrame) -> Any:
    """What the candidate said of each row of the holdout.

    Raises:
        DataError: it said it of other rows.
    """
    told = _read(spec.evaluation / "predictions.parquet", "evaluate")
    key = list(chosen.key)
    if "score" not in told or not told[key].reset_index(drop=True).equals(rows[key].reset_index(drop=True)):
        raise DataError(f"{spec.evaluation}/predictions.parquet is not of the holdout.", "Run `evaluate` again.")
    return told["score"].to_numpy(dtype=float)


def _last_rate(train: pd.DataFrame, label: str) -> float:
    import pandas as pd

    days = pd.to_datetime(train["date"])
    return float(train.loc[days > days.max() - pd.Timedelta(days=LAST_DAYS), label].mean())


def _packaged(spec: GateSpec, registry: Registry) -> Measured:
    """The candidate as it would be served."""
    from pipelines.evaluation.gates import serving

    version, chosen = registry.version(spec.model_name, spec.version), load_dataset(spec.dataset)
    holdout = _read(spec.features / "holdout" / "data.parquet", "preprocess").head(1_000)
    batch = spec.policy.serving.batch_rows if spec.policy.serving else 1
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        scores = registry.artifact(version, "training/scores.parquet", Path(folder))
        return serving.measure(
            score=registry.scorer(version),
            rows=holdout[list(chosen.features)],
            trained=_read(scores, "train") if scores else None,
            folder=registry.package(version, Path(folder)),
            batch=batch,
        )


def _address(spec: GateSpec) -> str:
    return (
        settings().report_page(spec.model_name, spec.version) if spec.model_name else str(spec.report / "report.html")
    )


def _publish(spec: GateSpec, registry: Registry) -> None:
    """The report is among the version's evidence, and where the data docs are served."""
    from pipelines.system.files import replace_folder

    registry.keep(registry.version(spec.model_name, spec.version), spec.report, "report")
    with replace_folder(settings().home / "docs" / "models" / spec.model_name / spec.version) as making:
        shutil.copytree(spec.report, making, dirs_exist_ok=True)


def _importance(evaluation: Path) -> dict[str, float]:
    import pandas as pd

    path = evaluation / "plots" / "importance.csv"
    return dict(pd.read_csv(path).itertuples(index=False)) if path.exists() else {}


def _asks(spec: GateSpec, registry: Registry | None, outcome: Outcome) -> bool:
    """Whether a person has to agree: to no backfill, which plays the past, nor to what is champion already."""
    from pipelines.evaluation import gates

    champion = registry.champion(spec.model_name) if registry and not spec.backfill else None
    settled = spec.backfill or (champion is not None and str(champion.version) == spec.version)
    return not settled and gates.asks_a_person(outcome, spec.approval)


def _read(path: Path, step: str) -> pd.DataFrame:
    import pandas as pd

    if not path.exists():
        raise DataError(f"{path} is not there.", f"The step `{step}` writes it.")
    return pd.read_parquet(path)
