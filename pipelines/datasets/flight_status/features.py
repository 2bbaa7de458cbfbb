"""The features of `flights`."""

from pipelines.datasets.flights.features import features

__all__ = ["features"]
