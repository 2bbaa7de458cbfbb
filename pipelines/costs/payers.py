"""Find the payer of a job: team, environment, person and dataset, besides the project."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pipelines import params
from pipelines.errors import LeewayError
from pipelines.settings import settings


class Payer(BaseModel):
    """The payer of a job. An empty field is not known."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    team: str = ""
    """Team that pays."""
    environment: str = ""
    """Environment in which the job ran, such as production."""
    user: str = ""
    """Person for whom the job ran."""
    dataset: str = ""
    """Dataset of the job."""
    priority: str = ""
    """Priority of the job, such as high."""


P = TypeVar("P", bound=Payer)
PAYER_COLUMNS = tuple(Payer.model_fields)
"""Columns of the ledger, and names of the jobs' tags after `leeway:`."""


def add_settings(payer: P) -> P:
    """Return the payer. An empty team, environment or person is replaced by that of the settings.

    If the settings have no person, it is the person who started the DAG run. A scheduled run has no person.
    """
    values = settings()
    actor = "" if "/" in values.actor else values.actor  # a run that no person started has DAG/RUN as its actor
    defaults = {"team": values.team, "environment": values.environment, "user": values.user or actor}
    return payer.model_copy(update={name: getattr(payer, name) or value for name, value in defaults.items()})


def find_dataset(model: str) -> str:
    """Return the dataset that the parameters of a model name; empty if there are none, or they name none."""
    if not model:
        return ""
    try:
        return params.choose_dataset(params.load(settings().project, model), model)
    except LeewayError:  # a job may train a model that has no parameters here
        return ""
