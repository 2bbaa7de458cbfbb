"""How fine a reference is: the field `reference` of section `evaluate` of params.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Policy(BaseModel):
    """How fine the bins are. What it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    bins: Annotated[int, Field(ge=2, le=100)] = 10
    """Of a number's values in training, each with the same share of them as near as may be."""
    values: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Most frequent values of a category that have a bin of their own; the others are one bin."""
