"""Checks of how good a candidate is: against bounds, against trivial models, against the champion."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.evaluation.gates.checks import exact, sure
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.policy import Comparison, Metric, Policy
from pipelines.evaluation.gates.verdict import FAILED, PASSED, Check
from pipelines.evaluation.statistics import bootstrap, delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import mcnemar
from pipelines.evaluation.statistics.weighted import METRICS


def bounds(rows: Holdout, policy: Policy) -> list[Check]:
    """The metrics of `policy.bounds`, each with its interval."""
    found = []
    for name, bound in policy.bounds.items():
        told = _alone(rows, name, policy)
        if bound.at_least is not None:
            found.append(sure(name, told, bound.at_least, policy))
        if bound.at_most is not None:
            what = f"{name}, leakage" if METRICS[name].greater_is_better else name
            found.append(sure(what, told, bound.at_most, policy, most=True))
    return found


def against_baselines(rows: Holdout, policy: Policy) -> list[Check]:
    """The candidate beats what needs no features: the training's rate, and its last week's."""
    simple = {"the training's rate": rows.base_rate, "its last week's rate": rows.last_week}
    return [
        sure(
            f"{metric} against {what}",
            _gain(rows, np.full(len(rows.label), rate), Comparison(metric=metric), policy),
            0.0,
            policy,
            beyond=True,
        )
        for metric in policy.baseline
        for what, rate in simple.items()
    ]


def against_champion(rows: Holdout, policy: Policy) -> list[Check]:
    """The comparisons of the policy; nothing where there is no champion."""
    if rows.champion is None:
        return []
    found = [
        sure(
            f"{one.metric} against the champion's",
            _gain(rows, rows.champion, one, policy),
            -one.margin,
            policy,
            beyond=one.margin == 0,
            matters=one.matters,
        )
        for one in policy.champion
    ]
    at = policy.threshold
    return found if at is None else [*found, _at_threshold(rows, rows.champion, at, policy)]


def newer(days: int | None) -> list[Check]:
    """The candidate is not of an earlier moment than the champion: days that it is newer; None without a champion."""
    name = "days that the window is newer than the champion's"
    return [] if days is None else [exact(name, days, at_least=0)]


def _alone(rows: Holdout, metric: Metric, policy: Policy) -> Estimate:
    if metric == "auc" and not policy.draw_by:
        return delong.auc(rows.label, rows.candidate, alpha=policy.alpha)
    return bootstrap.interval(rows.label, rows.candidate, metric, **_drawing(rows, policy))


def _gain(rows: Holdout, other: Array, asked: Comparison, policy: Policy) -> Estimate:
    """How much better the candidate is: positive is better, whatever the metric."""
    if asked.metric == "auc" and not policy.draw_by and asked.test != "bootstrap":
        return delong.paired(rows.label, rows.candidate, other, alpha=policy.alpha)
    told = bootstrap.paired(rows.label, rows.candidate, other, asked.metric, **_drawing(rows, policy))
    return told if METRICS[asked.metric].greater_is_better else -told


def _drawing(rows: Holdout, policy: Policy) -> dict[str, Any]:
    groups = rows.column(policy.draw_by).astype(str).to_numpy() if policy.draw_by else None
    return {"alpha": policy.alpha, "draws": policy.draws, "seed": policy.seed, "groups": groups}


def _at_threshold(rows: Holdout, champion: Array, at: float, policy: Policy) -> Check:
    """McNemar: of the rows that one model has right and the other wrong, the candidate has not surely fewer right."""
    told = mcnemar(rows.label, rows.candidate, champion, at)
    worse = told.champion_only > told.candidate_only and told.p_value < policy.alpha
    return Check(
        check=f"right at {at:g} where the champion is not",
        value=told.candidate_only,
        bound=told.champion_only,
        outcome=FAILED if worse else PASSED,
        reason=(
            f"at {at:g} the candidate alone is right on {told.candidate_only} rows, the champion alone on "
            f"{told.champion_only} (McNemar, p = {told.p_value:.3g})"
        ),
    )
