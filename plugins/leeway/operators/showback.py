"""The operator that runs the step `showback`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leeway.operators.step import ACTOR_VARIABLES, StepOperator

TASK_OF_RUN = "{{ dag.dag_id }}/{{ run_id }}/{{ task.task_id }}{{ '/%d' % ti.map_index if ti.map_index >= 0 else '' }}"
"""Template of the text that identifies a task: a retry has the same text, other tasks have other texts."""


class ShowbackOperator(StepOperator):
    """Check the budgets of projects and the costs of the last days, and notify people once of each finding.

    The messages are sent by the callbacks of `build_lifecycle_callbacks`, which every DAG of Leeway has. A retry of the
    task reports the same notices again, and no other task does. Without an argument, section `showback` of params.yaml
    is used.

    Args:
        teams: maps each project to the team that pays (templated).
        environments: maps each project to its environment (templated).
        budgets_usd: maps PROJECT or PROJECT/YYYY-MM to the budget of a month, USD (templated).
        thresholds_percent: shares of a budget, percent. When costs reach such a share, people are notified once
            (templated).
        commitments: commitments of savings plans that were bought, each with usd_h, term, begin and perhaps discount
            (templated).

    Returns:
        `ShowbackResult`: month, month_usd, unallocated_usd, reserved_usd, unused_commitment_usd, budgets, notices.
    """

    step = "showback"
    fields = ("teams", "environments", "budgets_usd", "thresholds_percent", "commitments")

    def __init__(
        self,
        *,
        teams: Mapping[str, str] | None = None,
        environments: Mapping[str, str] | None = None,
        budgets_usd: Mapping[str, float | str] | None = None,
        thresholds_percent: Sequence[int | str] | None = None,
        commitments: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.actor_variables = {**ACTOR_VARIABLES, "LEEWAY_RUN": TASK_OF_RUN}
        self.teams, self.environments = teams, environments
        self.budgets_usd, self.thresholds_percent = budgets_usd, thresholds_percent
        self.commitments = commitments
