"""Profiles: what a partition's rows look like to a model, as counts that add up.

`reference` says what is counted, from the rows that the model was trained on; `counting` counts a partition's;
`profile` adds partitions up to a window; `table` keeps them. Only `Policy` is loaded by importing the package.
"""

from pipelines.monitoring.profiles.policy import Policy

__all__ = ["Policy"]
