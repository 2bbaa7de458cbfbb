"""Define how fine the bins of a reference are: the field `reference` of section `evaluate` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.parameters import Parameters


class Policy(Parameters):
    """How fine the bins are. Unknown fields are refused."""

    bins: Annotated[int, Field(ge=2, le=100)] = 10
    """Bins of a number. Each has about the same share of the training's values."""
    values: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Most frequent values of a category that have a bin of their own; all other values share one bin."""
