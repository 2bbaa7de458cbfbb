"""Judge a candidate by the policy, and against the champion if there is one. A failed verdict is not an error.

In a backfill the candidate is compared with the version that was champion at its as_of, because today's champion was
trained on later data. The step writes the verdict to a file and, for a registered version, to the version's tags.
Idempotent.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.evaluation.gates import Approval, Check, Outcome, Policy
from pipelines.feature_files import load_dataset_of_features
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.dataset import Dataset
    from pipelines.evaluation.gates.holdout import Holdout
    from pipelines.evaluation.gates.judge import JudgedData, Judgement
    from pipelines.registry.registered_candidate import RegisteredCandidate


class GateSpec(Spec):
    """The candidate to judge, and the policy."""

    prerequisites: ClassVar[Mapping[str, str]] = {"version": "model"}

    dataset: str = ""
    """Dataset of the model; empty: the one that the features were built from."""
    evaluation: Path = Path("data/evaluation")
    """Folder that `evaluate` wrote."""
    features: Path = Path("data/features")
    """Folder with train/ and holdout/, as `preprocess` wrote it."""
    policy: Policy = Field(default_factory=Policy)
    """The conditions that a candidate must meet."""
    model: str = ""
    """Registered model; empty: the candidate is judged without a registry, and so without a champion."""
    version: str = ""
    """Version of the candidate."""
    approval: Approval = "none"
    """When a person must approve a promotion: none (never), required (after a passed verdict), when_undecided (after an
    undecided verdict). A backfill needs no approval."""
    approval_timeout_h: float = Field(default=72.0, gt=0, allow_inf_nan=False)
    """Hours to wait for the person's answer."""
    approval_default: Literal["approve", "reject"] = "reject"
    """Decision when nobody answers in that time."""
    backfill: bool = False
    """Whether a backfill runs the step. If so, the candidate is compared with the version that was champion at its
    as_of."""
    verdict: Path = Path("data/verdict.json")
    """File to write: the verdict as JSON."""
    report: Path = Path("data/report")
    """Folder to write: report.html, which shows the verdict and its evidence, and the pictures of this page."""


class GateResult(Result):
    """The verdict, its evidence, and the files and version that it belongs to."""

    passed: bool
    """Whether the outcome is `passed`. If `needs_approval` is true, a person must also approve the promotion."""
    outcome: Outcome
    """passed, failed, or undecided: too little data to decide, which does not count as passed."""
    reason: str
    """The failed and the undecided checks, in words; if there are none, how many checks passed."""
    checks: list[Check]
    """Every check with value, interval, bound and reason."""
    days_needed: int | None = None
    """About how many days of holdout would decide an undecided verdict; null for another one, or if no number would."""
    next_steps: list[str] = Field(default_factory=list)
    """For an undecided verdict, what to do, in sentences; else empty."""
    needs_approval: bool = False
    """Whether a person has to agree before the candidate is promoted."""
    approval_timeout_h: float = 72.0
    """Hours to wait for the person's answer."""
    approval_default: Literal["approve", "reject"] = "reject"
    """Decision when nobody answers in that time."""
    model_digest: str = ""
    """SHA-256 of the files that the training wrote, as they were judged; empty for a model that is not registered."""
    package_digest: str = ""
    """SHA-256 of the whole package as it was judged, its code included; empty for a model that is not registered."""
    facts: dict[str, str] = Field(default_factory=dict)
    """Description of the candidate: values by name."""
    hyperparameters: dict[str, str] = Field(default_factory=dict)
    """Hyperparameters of the training: values by name; empty for a model that is not registered."""
    differences: dict[str, list[str]] = Field(default_factory=dict)
    """Maps each tag or parameter whose values differ to two values: the champion's and the candidate's."""
    champion: str = ""
    """Version that the candidate was compared with; empty if there was none."""
    model_name: str = ""
    """Registered model that was judged."""
    version: str = ""
    """Version that was judged."""
    verdict: Path
    """File of the verdict."""
    report: str
    """Address of the report's page."""


def run(spec: GateSpec) -> GateResult:
    """Judge the candidate; write the verdict and its report, and record them with the version. Idempotent.

    Raises:
        SpecError: the features were built from another dataset. A retry cannot help.
        DataError: there is no evaluation or no such version, the holdout cannot be judged, or the champion cannot be
            loaded any more. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.evaluation.gates.judge import judge

    with _open_candidate(spec) as candidate:
        dataset = load_dataset_of_features(spec.features, spec.dataset)
        evidence = _collect_evidence(spec, candidate, dataset)
        judgement = judge(evidence, spec.policy)
        result = _make_result(spec, candidate, evidence.holdout, judgement)
        _write_verdict(spec, result, evidence.holdout, judgement, _list_links(spec, dataset.name))
        if candidate:
            _record_verdict(spec, candidate, result)
    log.info("verdict: %s: %s", result.outcome, ". ".join(filter(None, [result.reason, " ".join(result.next_steps)])))
    log.info("report: %s", result.report)
    return result


def _open_candidate(spec: GateSpec) -> AbstractContextManager[RegisteredCandidate | None]:
    """Open the registered candidate; without a registry, yield None."""
    if not spec.model:
        return nullcontext()
    from pipelines.registry.registered_candidate import open_registered_candidate

    return open_registered_candidate(spec.model, spec.version, backfill=spec.backfill)


def _collect_evidence(spec: GateSpec, candidate: RegisteredCandidate | None, dataset: Dataset) -> JudgedData:
    if candidate:
        from pipelines.registry.evidence import collect_evidence

        return collect_evidence(candidate, dataset, spec.features, spec.evaluation, spec.policy)
    from pipelines.evaluation.gates.inputs import read_holdout
    from pipelines.evaluation.gates.judge import JudgedData

    holdout = read_holdout(dataset, spec.features, spec.evaluation, score_champion=None)
    return JudgedData(holdout, tuple(dataset.features))


def _make_result(
    spec: GateSpec, candidate: RegisteredCandidate | None, holdout: Holdout, judgement: Judgement
) -> GateResult:
    from pipelines.evaluation import gates
    from pipelines.evaluation.gates.remedy import find_remedy

    outcome = gates.combine_outcomes(judgement.checks)
    # A backfill repeats the past, so it needs no approval. Neither does a version that is champion already.
    can_be_promoted = not spec.backfill and not (candidate and candidate.is_champion)
    needs_approval = can_be_promoted and gates.needs_approval(outcome, spec.approval)
    remedy = find_remedy(judgement.checks, len(holdout.label), holdout.count_days(), needs_approval=needs_approval)
    return GateResult(
        passed=outcome == gates.PASSED,
        outcome=outcome,
        reason=gates.summarize_checks(judgement.checks),
        checks=judgement.checks,
        days_needed=remedy.days_needed,
        next_steps=remedy.next_steps,
        needs_approval=needs_approval,
        model_digest=candidate.model_digest if candidate else "",
        package_digest=candidate.package_digest if candidate else "",
        approval_timeout_h=spec.approval_timeout_h,
        approval_default=spec.approval_default,
        facts=_describe_candidate(candidate, holdout) | _describe_tuning(spec),
        hyperparameters=candidate.registry.get_params(candidate.version) if candidate else {},
        differences=_compare_with_champion(candidate),
        champion=str(candidate.champion.version) if candidate and candidate.champion else "",
        model_name=spec.model,
        version=spec.version,
        verdict=spec.verdict,
        report=_get_report_address(spec),
    )


def _describe_candidate(candidate: RegisteredCandidate | None, holdout: Holdout) -> dict[str, str]:
    """Describe the candidate for the report, and for the person who has to agree."""
    facts = {"rows of holdout": f"{len(holdout.label):,}"}
    if holdout.classes:
        facts["classes"] = f"{len(holdout.classes)}"
    else:
        facts["rate" if holdout.task == "binary" else "mean of the label"] = f"{holdout.label.mean():.6g}"
    if candidate is None:
        return facts
    from pipelines.registry.description import describe_version

    return {**describe_version(candidate.version), **facts}


def _describe_tuning(spec: GateSpec) -> dict[str, str]:
    """Describe the tuning that found the hyperparameters, and compare its losses with those of this training.

    Return an empty mapping if there was no tuning.
    """
    from pipelines.tuning.refit import read_refit_text

    text = read_refit_text(spec.evaluation)
    return {"tuning": text} if text else {}


def _compare_with_champion(candidate: RegisteredCandidate | None) -> dict[str, list[str]]:
    if candidate is None or candidate.champion is None:
        return {}
    from pipelines.registry.description import compare_versions

    registry, champion, version = candidate.registry, candidate.champion, candidate.version
    return compare_versions(champion, registry.get_params(champion), version, registry.get_params(version))


def _get_report_address(spec: GateSpec) -> str:
    return settings().build_report_url(spec.model, spec.version) if spec.model else str(spec.report / "report.html")


def _list_links(spec: GateSpec, dataset: str) -> dict[str, str]:
    """Return the address of each link of the report, by title.

    Without a registry there are no links: then DVC stores the report, which must be the same on each machine.
    """
    if not spec.model:
        return {}
    links = {
        "Validations of the data": settings().build_dataset_url(dataset),
        "Other evaluations": settings().build_reports_url("models", spec.model),
        "Drift": settings().build_reports_url("drift", spec.model),
        "Version in MLflow": settings().build_version_url(spec.model, spec.version),
    }
    return {title: address for title, address in links.items() if address}


def _write_verdict(
    spec: GateSpec, result: GateResult, holdout: Holdout, judgement: Judgement, links: Mapping[str, str]
) -> None:
    """Write the report to `spec.report`, then the verdict to `spec.verdict`."""
    from pipelines.evaluation.gates import REPORTED
    from pipelines.evaluation.report.report import write_report
    from pipelines.evaluation.tables import read_importance
    from pipelines.system.files import write_json

    path = spec.evaluation / "plots" / "importance.csv"
    importance = read_importance(path) if path.exists() else {}
    verdict = result.model_dump(mode="json", exclude={"verdict", "report"})
    write_report(spec.report, verdict, holdout, judgement, spec.policy, importance, links)
    # Measured times that have no bound are left out of the file: with them, a retry would give another digest.
    stable_checks = [check for check in result.checks if not (check.timed and check.outcome == REPORTED)]
    write_json(spec.verdict, {**verdict, "checks": [check.model_dump(mode="json") for check in stable_checks]})


def _record_verdict(spec: GateSpec, candidate: RegisteredCandidate, result: GateResult) -> None:
    """Publish the report, and record the verdict in the version's tags and among the model's events."""
    from pipelines.registry import artifacts, lifecycle
    from pipelines.registry.description import format_summary
    from pipelines.system.files import sha256

    artifacts.upload_folder(candidate.registry, candidate.version, spec.report, "report")
    _publish_report(spec, candidate, result)
    summary = format_summary(candidate.version, result.outcome, result.reason, result.report)
    candidate.registry.set_description(spec.model, spec.version, summary)
    digest = sha256(spec.verdict)
    tags = {"verdict": result.outcome, "verdict_reason": result.reason, "verdict_digest": digest}
    prefixed_tags = {f"leeway.{name}": value for name, value in tags.items()}
    candidate.registry.set_tags(spec.model, spec.version, prefixed_tags)
    lifecycle.record_verdict(
        candidate.registry,
        spec.model,
        spec.version,
        outcome=result.outcome,
        reason=result.reason,
        champion=result.champion,
        digest=digest,
        package_digest=result.package_digest,
        backfill=spec.backfill,
        checks=[
            check.model_dump(mode="json", include={"name", "value", "low", "high", "outcome"})
            for check in result.checks
            if not check.timed
        ],
    )


def _publish_report(spec: GateSpec, candidate: RegisteredCandidate, result: GateResult) -> None:
    """Copy the report to the folder of the data docs, where pages list it."""
    from pipelines.pages.reports import Report, publish_report
    from pipelines.system.files import replace_folder

    details = f"trained as of {candidate.version.tags.get('leeway.as_of', '?')}"
    report = Report("models", spec.model, spec.version, "report.html", result.outcome, result.reason, details)
    with replace_folder(report.folder) as folder:
        shutil.copytree(spec.report, folder, dirs_exist_ok=True)
    publish_report(report)
