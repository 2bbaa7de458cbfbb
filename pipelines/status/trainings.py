"""Find out what would happen if drift requested a training now: the answers of the guards, and the worst-case cost."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from pipelines.costs.budgets import BudgetVerdict, check_budget
from pipelines.dataset import Dataset
from pipelines.errors import LeewayError
from pipelines.loop import facts
from pipelines.loop.ask_guards import TrainingQuestion, ask_guards
from pipelines.loop.events import History
from pipelines.status.documents.model import GuardAnswer, TrainingAge, TrainingForecast
from pipelines.status.inputs import StatusInputs
from pipelines.status.texts import shorten
from pipelines.status.timeline import map_as_of
from pipelines.window import DAY

NO_FORECAST = "the section budget of the parameters lacks region, instance_types or max_run_s"


@dataclass(frozen=True)
class TrainingOutlook:
    """The training that drift would request now: its as_of, the answers of the guards, and its worst-case cost."""

    as_of: dt.date | None
    """As_of of the training: the day after the newest published day; None without data."""
    guards: list[GuardAnswer]
    """Answers of all guards, the most serious first; empty without data."""
    forecast: TrainingForecast
    """The worst-case cost of the training, and how it was computed or why it is not known."""

    @property
    def is_breaker_open(self) -> bool:
        """Whether the breaker holds trainings back."""
        return any(answer.guard == "breaker" and answer.why for answer in self.guards)


def assess_next_training(inputs: StatusInputs, model: str, dataset: Dataset, history: History) -> TrainingOutlook:
    """Find out what the guards would answer, and the worst-case cost of a training as of the day after the newest data.

    If the budget cannot be checked, for example because the price of an instance is not known, the guard of the budget
    gives this problem as its reason, because the training would fail at this check.

    Args:
        inputs: what the documents or the metrics of all models are built from.
        model: registered model.
        dataset: dataset of the model.
        history: events of the loop for the model.
    """
    verdict: BudgetVerdict | None = None
    problem = ""
    try:
        verdict = _check_budget(inputs, model)
    except LeewayError as error:
        problem = error.message
    refusal = problem or (verdict.reason if verdict and not verdict.allowed else "")
    text = problem or (verdict.reason if verdict else NO_FORECAST)
    worst_case_usd = verdict.worst_case_usd if verdict else None
    forecast = TrainingForecast(worst_case_usd=worst_case_usd, text=shorten(text))
    newest_day = inputs.find_newest_day(dataset)
    if newest_day is None:
        return TrainingOutlook(as_of=None, guards=[], forecast=forecast)
    question = TrainingQuestion(model, dataset, newest_day + DAY, facts.load_policy(model))
    answers = ask_guards(question, history, inputs.lake, lambda _: refusal)
    guards = [
        GuardAnswer(guard=guard, why=shorten(hold_back.why), until=hold_back.until)
        if hold_back
        else GuardAnswer(guard=guard, why="", until=None)
        for guard, hold_back in answers.items()
    ]
    return TrainingOutlook(question.as_of, guards, forecast)


def find_training_age(inputs: StatusInputs, model: str, dataset: Dataset, history: History) -> TrainingAge | None:
    """Find out from which as_of on a training is due by age, without drift.

    Return None if the policy sets no `max_age_days`, if there is no champion, or if its as_of is not known because the
    loop did not train it.

    Raises:
        SpecError: the parameters of the model are not valid. A retry cannot help.
    """
    champion_as_of = map_as_of(history).get(inputs.registry.read_state(model).champion)
    if champion_as_of is None:
        return None
    age_limit = facts.find_age_limit(
        model, dataset, champion_as_of, as_of=dt.date.max, history=history, lake=inputs.lake
    )
    if age_limit is None:
        return None
    return TrainingAge(last_as_of=age_limit.last_as_of, max_age_days=age_limit.max_age_days, due_on=age_limit.due_on)


def _check_budget(inputs: StatusInputs, model: str) -> BudgetVerdict | None:
    """Compare the worst-case cost of a training with its budgets; None in the case of `NO_FORECAST`."""
    training = facts.load_planned_training(model)
    return check_budget(training, inputs.running_fleets, inputs.lake) if training else None
