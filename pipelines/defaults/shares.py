"""Give each host of a training its share of the rows: every n-th row of all, or the rows that S3 gave to the host.

The module is part of the training job's source bundle, so it imports only pandas, xgboost, the standard library and
files of the bundle.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd
import xgboost as xgb

from pipelines.container.hosts import Hosts
from pipelines.defaults import collective
from pipelines.defaults.arguments import InvalidInput
from pipelines.defaults.channels import is_sharded
from pipelines.defaults.model import Schema


def make_train_matrix(schema: Schema, rows: pd.DataFrame, hosts: Hosts, parts: Mapping[str, Any]) -> xgb.DMatrix:
    """Return the matrix of this host's share of the rows. Call it before the hosts are connected.

    If the host has all rows, the bins of the features are those of all rows. If S3 divided the rows, xgboost merges the
    hosts' sketches of their shares in the first round. These bins are approximate, so the model is not exactly that of
    one host.

    Args:
        schema: schema of all rows.
        rows: the rows that the host has read.
        hosts: hosts of the job.
        parts: description of the parts, if the step `divide` wrote the channel; else empty.

    Raises:
        InvalidInput: there are fewer rows than hosts, or S3 divided rows that the step `divide` did not write. A retry
            cannot help.
    """
    if is_sharded("train") and hosts.count > 1:
        if not parts:
            raise InvalidInput(
                "the channel train is ShardedByS3Key, but the step `divide` did not write it. Make it FullyReplicated, "
                "or give the operator the folder of the features: it divides them."
            )
        sys.stdout.write(f"host {hosts.current_name} has {len(rows)} of {parts['rows']} rows, from S3\n")
        return schema.to_matrix(rows)
    matrix = schema.to_matrix(rows)
    if hosts.count == 1:
        return matrix
    share = rows.iloc[hosts.index :: hosts.count]
    if len(rows) < hosts.count:
        raise InvalidInput(f"the channel train has {len(rows)} rows for {hosts.count} hosts: use fewer hosts.")
    sys.stdout.write(f"host {hosts.current_name} has {len(share)} of {len(rows)} rows\n")
    return schema.to_matrix(share, bins_of=matrix)


def check_row_count(hosts: Hosts, row_count: int, parts: Mapping[str, Any]) -> None:
    """Check that the hosts together have as many rows as the file that was divided. Call it on all connected hosts.

    Args:
        hosts: hosts of the job.
        row_count: number of rows in this host's matrix.
        parts: description of the parts; empty if the file is not divided, and then nothing is compared.

    Raises:
        InvalidInput: the numbers differ, so rows are missing or occur twice. A retry cannot help.
    """
    total = collective.reduce_sum(hosts, row_count)
    if parts and total != parts["rows"]:
        raise InvalidInput(
            f"the hosts have {total} rows of the channel train together, but the file that was divided has "
            f"{parts['rows']}. Divide it again, into an empty prefix."
        )
