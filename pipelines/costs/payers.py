"""Define what the reports of costs need to know about a job besides its project: who pays, and for whom it ran."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pipelines import params
from pipelines.errors import LeewayError
from pipelines.settings import settings


class Payer(BaseModel):
    """The team that pays for a job, and its environment, person, dataset and priority. An empty field is not known."""

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
    """Replace an empty team, environment or person by that of the settings; return the result.

    If the settings have no person, the person who started the DAG run is used. A scheduled run has no person.
    """
    values = settings()
    actor = "" if "/" in values.actor else values.actor  # a run that no person started has DAG/RUN as its actor
    defaults = {"team": values.team, "environment": values.environment, "user": values.user or actor}
    return payer.model_copy(update={name: getattr(payer, name) or value for name, value in defaults.items()})


def find_dataset(model: str) -> str:
    """Return the dataset that the parameters of a model name; empty if the parameters are missing, or name none."""
    if not model:
        return ""
    try:
        return params.choose_dataset(params.load(settings().project, model), model)
    except LeewayError:  # a job may train a model that has no parameters here
        return ""
