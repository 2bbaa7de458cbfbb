"""Collect the facts that the guards need about a training, and list each guard's decision without recording it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipelines.dataset import Dataset
from pipelines.lake import Lake
from pipelines.loop import facts
from pipelines.loop.events import History
from pipelines.loop.guards import GUARDS, HoldBack, Request, list_hold_backs
from pipelines.loop.policy import Policy

NO_RUN = "none: loop status"
"""Text in place of a run, in the request that `ask_guards` builds: this request is not recorded, so it has no run."""


@dataclass(frozen=True)
class TrainingQuestion:
    """A training about which the guards are asked: would they allow this training if drift requested it now?"""

    model: str
    """Registered model."""
    dataset: Dataset
    """Dataset of the model."""
    as_of: dt.date
    """As_of of the training."""
    policy: Policy
    """The limits that the guards apply."""
    drifted_columns: Sequence[str] = ()
    """Columns that drifted."""


def add_facts(
    request: Request,
    dataset: Dataset,
    policy: Policy,
    lake: Lake,
    explain_budget_refusal: Callable[[str], str] | None = None,
) -> Request:
    """Return the request with the facts that the guards need.

    The facts that matter only for drift stay empty if the trigger is not drift.

    Args:
        request: the request, without these facts.
        dataset: dataset of the model.
        policy: the limits that the guards apply.
        lake: lake with the data, their validations and the ledgers of costs.
        explain_budget_refusal: function that returns why the budget does not allow a training of the named model; empty
            if the budget allows it. None: `facts.explain_budget_refusal` with this lake.

    Raises:
        SpecError: the parameters of the model are not valid, or name an instance type that is retired. A retry cannot
            help.
        DataError: an instance type of the budget or of a running endpoint has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    window = facts.load_training_window(request.model, dataset.name, request.as_of).compute_window()
    request = replace(request, data=facts.digest_training_data(lake, dataset, window))
    if request.trigger != "drift":
        return request
    days = facts.select_quality_days(request.model, request.as_of, policy)
    failures = facts.find_validation_failures(lake, dataset, days, request.drifted_columns)
    explain = explain_budget_refusal or partial(facts.explain_budget_refusal, lake=lake)
    return replace(request, failed_validations=tuple(failures), budget_refusal=explain(request.model))


def ask_guards(
    question: TrainingQuestion, history: History, lake: Lake, explain_budget_refusal: Callable[[str], str] | None = None
) -> dict[str, HoldBack | None]:
    """Ask each guard whether it would hold back a training that drift requests now. Changes nothing.

    Args:
        question: the training.
        history: history of the model's trainings.
        lake: lake with the data, their validations and the ledgers of costs.
        explain_budget_refusal: see `add_facts`.

    Returns:
        Maps each guard to its decision, the most serious guard first; None if the guard lets the training through.

    Raises:
        SpecError: the parameters of the model are not valid, or name an instance type that is retired. A retry cannot
            help.
        DataError: an instance type of the budget or of a running endpoint has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    request = Request(
        model=question.model,
        run=NO_RUN,
        as_of=question.as_of,
        trigger="drift",
        now=dt.datetime.now(dt.UTC),
        drifted_columns=tuple(question.drifted_columns),
    )
    request = add_facts(request, question.dataset, question.policy, lake, explain_budget_refusal)
    hold_backs = {hold_back.guard: hold_back for hold_back in list_hold_backs(request, history, question.policy)}
    return {guard: hold_backs.get(guard) for guard in GUARDS}
