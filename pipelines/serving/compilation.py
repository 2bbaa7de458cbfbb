"""Compile the features of a dataset to SQL, from the expression that training uses, and describe its lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import duckdb
import ibis
import ibis.expr.operations as ops
import pyarrow as pa

from pipelines.container.serving.compiled_features import CompiledFeatures, CompiledLookup, Query
from pipelines.container.serving.feature_query import POSITION, ROWS, FeatureQuery, connect
from pipelines.dataset import Dataset
from pipelines.errors import DataError
from pipelines.features.building import build_feature_schema
from pipelines.features.columns import (
    KEY_PREFIX,
    build_default,
    compute_columns,
    list_lookups_of_earlier_partitions,
    select_feature,
    select_keys,
)
from pipelines.features.dependencies import (
    find_columns,
    find_key_types,
    list_features_of_other_rows,
    list_redefined_columns,
)
from pipelines.features.independent_rows import make_rows_independent
from pipelines.lookups import Lookup
from pipelines.online.declarations import name_group, require_lookups
from pipelines.partitions import HOUR_COLUMN
from pipelines.system.duckdb_session import quote_identifier


def compile_features(dataset: Dataset, row_schema: pa.Schema, *, has_lookups: bool) -> CompiledFeatures:
    """Compile the features of a dataset to SQL, and check that DuckDB can run it. Equal arguments give equal results.

    Args:
        dataset: dataset whose features are compiled.
        row_schema: schema of the published rows.
        has_lookups: whether the dataset's lookups are compiled, too.

    Raises:
        DataError: the features cannot be built from such rows, or DuckDB cannot run them. A retry cannot help.
        SpecError: a lookup is wrong, or its key cannot be computed from one row. A retry cannot help.
    """
    lookups = require_lookups(dataset) if has_lookups else ()
    row_schema = row_schema.remove_metadata()
    all_lookups = [*lookups, *list_lookups_of_earlier_partitions(dataset)]
    looked_up = {name for lookup in all_lookups for name in lookup.features}
    try:
        compiled_features = CompiledFeatures(
            row_schema=row_schema,
            known_later=[name for name in row_schema.names if name in {dataset.label, *dataset.known_later}],
            key=list(dataset.key),
            partition=dataset.partition,
            features=dict(dataset.features),
            changed_features=list_redefined_columns(dataset, row_schema, looked_up),
            features_of_other_rows=list_features_of_other_rows(dataset, row_schema),
            query=_compile_query(dataset, row_schema, ()),
            lookups=[_compile_lookup(dataset, lookup) for lookup in lookups],
            lookup_query=_compile_query(dataset, row_schema, lookups) if lookups else None,
        )
        for query in (compiled_features.query, compiled_features.lookup_query):
            if query:
                _check_query(query, row_schema)
        compiled_features.format()
    except (AttributeError, ibis.common.exceptions.IbisError) as error:  # ibis raises either for a missing column
        raise DataError(f"the features of {dataset.name} cannot be built from its rows: {error}.") from None
    except duckdb.Error as error:  # such as for a function in Python, which DuckDB can call only through ibis
        raise DataError(f"DuckDB alone cannot compute the features of {dataset.name}: {error}.") from None
    except ValueError as error:  # the file would be too large
        raise DataError(f"{dataset.name}: {error}.") from None
    return compiled_features


def _compile_lookup(dataset: Dataset, lookup: Lookup) -> CompiledLookup:
    return CompiledLookup(
        name=lookup.name,
        group=name_group(dataset, lookup),
        key_columns=[f"{KEY_PREFIX}{name}" for name in lookup.key],
        features=dict(lookup.features),
        max_age_s=lookup.max_age.total_seconds(),
        is_of_earlier_partition=lookup.is_of_earlier_partition(dataset.partition),
    )


def _compile_query(dataset: Dataset, row_schema: pa.Schema, lookups: Sequence[Lookup]) -> Query:
    """Compile the features that are not looked up, and the keys of the lookups."""
    looked_up = {name for lookup in lookups for name in lookup.features}
    computed_names = [name for name in dataset.features if name not in looked_up]
    key_types = {
        name: arrow_type
        for lookup in lookups
        for name, arrow_type in find_key_types(dataset, lookup, row_schema).items()
    }
    # With the row's position in the key, `compute_columns` checks that the dataset's function `features` does not drop
    # the position. The results are sorted by it.
    dataset_with_position = replace(dataset, key=(POSITION, *dataset.key))
    schema = pa.schema([pa.field(POSITION, pa.int32()), *row_schema])
    table = compute_columns(dataset_with_position, ibis.table(ibis.Schema.from_pyarrow(schema), name=ROWS))
    defaults = _build_earlier_partition_defaults(dataset)
    feature_columns = [defaults.get(name, select_feature(dataset, table, name)) for name in computed_names]
    features = _replace_drops(table.select(POSITION, *feature_columns, *select_keys(table, key_types)))
    needed_columns = frozenset[str]().union(*(find_columns(features[name]) for name in features.columns))
    if lookups:  # the age of a looked-up value is measured from the beginning of the row's partition
        needed_columns |= {"date", HOUR_COLUMN} if dataset.partition == "hour" else {"date"}
    columns = [name for name in row_schema.names if name in needed_columns]
    types = _find_duckdb_types(schema)
    independent_features = make_rows_independent(features, POSITION)
    return Query(
        columns=columns,
        column_types=[types[name] for name in columns],
        sql=_write_sql(features.order_by(POSITION)),
        one_row_sql=_write_one_row_sql(_write_sql(features), columns, types),
        outputs=_build_output_schema(dataset, row_schema, computed_names, key_types),
        separate_sql=None if independent_features is None else _write_sql(independent_features.order_by(POSITION)),
    )


def _build_earlier_partition_defaults(dataset: Dataset) -> dict[str, ibis.Value]:
    """Return the defaults of the features that are looked up in earlier partitions.

    Without the online store, a request gets these defaults, because it has no rows of earlier partitions.
    """
    lookups = list_lookups_of_earlier_partitions(dataset)
    return {name: build_default(dataset, lookup, name).name(name) for lookup in lookups for name in lookup.features}


def _replace_drops(table: ibis.Table) -> ibis.Table:
    """Return the expression, in which each drop of columns is replaced by a selection of the remaining columns.

    ibis 12 writes dropped columns in the order of a set, which differs from process to process. Without this
    replacement, equal features would have different SQL, and their packages different digests.
    """

    def replace_node(node: Any, values: dict[str, Any] | None) -> Any:
        node = node.__recreate__(values) if values else node
        if not isinstance(node, ops.DropColumns):
            return node
        return ops.Project(node.parent, {name: ops.Field(node.parent, name) for name in node.schema.names})

    new_table: ibis.Table = table.op().replace(replace_node).to_expr()
    return new_table


def _build_output_schema(
    dataset: Dataset, row_schema: pa.Schema, computed_names: Sequence[str], key_types: Mapping[str, pa.DataType]
) -> pa.Schema:
    feature_schema = build_feature_schema(dataset, row_schema)
    key_fields = [pa.field(f"{KEY_PREFIX}{name}", arrow_type) for name, arrow_type in key_types.items()]
    return pa.schema([*(feature_schema.field(name) for name in computed_names), *key_fields])


def _find_duckdb_types(schema: pa.Schema) -> dict[str, str]:
    """Map each column to the name of DuckDB's type for it."""
    with closing(connect()) as connection:
        types = connection.from_arrow(pa.Table.from_batches([], schema=schema)).types
        return dict(zip(schema.names, map(str, types), strict=True))


def _write_sql(table: ibis.Table) -> str:
    return str(ibis.to_sql(table, dialect="duckdb", pretty=False))


def _write_one_row_sql(sql: str, columns: Sequence[str], types: Mapping[str, str]) -> str:
    """Write the SQL for one row, whose values are parameters. Columns that no feature reads are null."""
    parameters = {name: f"${number}" for number, name in enumerate(columns, 1)} | {POSITION: "0"}
    row = ", ".join(
        f"CAST({parameters.get(name, 'NULL')} AS {duckdb_type}) AS {quote_identifier(name)}"
        for name, duckdb_type in types.items()
    )
    # Without MATERIALIZED, DuckDB 2.0 may copy a parameter in the plan, as when it rewrites a window function to a
    # join. DuckDB then loses the value of the copy, and returns no rows.
    rows = f"WITH {quote_identifier(ROWS)} AS MATERIALIZED (SELECT {row})"
    return f"{rows} SELECT * FROM ({sql})"  # noqa: S608


def _check_query(query: Query, row_schema: pa.Schema) -> None:
    """Run the query on no rows, and prepare the statement for one row."""
    with closing(connect()) as connection:
        FeatureQuery(query, row_schema, connection).check()
