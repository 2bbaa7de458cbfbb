"""Define the parameters of a reference's bins: the field `reference` of section `evaluate` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.parameters import Parameters


class BinPolicy(Parameters):
    """The numbers of bins of a reference. Unknown fields are refused."""

    bins: Annotated[int, Field(ge=2, le=100)] = 10
    """Number of bins of a numeric column. Each has about the same share of the values in training."""
    values: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Largest number of values of a categorical column that have a bin of their own: the most frequent ones in
    training. All other values share one bin."""
