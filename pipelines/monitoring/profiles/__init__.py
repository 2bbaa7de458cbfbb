"""Count the rows of partitions in bins of their columns. Profiles of several partitions can be added.

`reference` derives the bins from the rows that a model was trained on, `counting` counts a partition's rows in these
bins, `profile` adds the profiles of several partitions, and `table` stores them. Importing the package loads only
`BinPolicy`.
"""

from pipelines.monitoring.profiles.policy import BinPolicy

__all__ = ["BinPolicy"]
