"""Read a sample of a database or of an HTTP API."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import sqlalchemy as sa

from pipelines.errors import DataError, SpecError
from pipelines.ingestion.sources.convert import Position, Zone, build_array
from pipelines.ingestion.sources.database import sql_session
from pipelines.scaffold.request import AskFunction, Request
from pipelines.scaffold.sampling.next_page import LinkFinder
from pipelines.scaffold.sampling.sample import MAX_ROWS, Sample
from pipelines.window import Days

MAX_API_DAYS = 400
"""Largest number of days of an API that a sample reads."""


def read_database(request: Request, source: str, ask: AskFunction) -> Sample:
    """Read the rows of a table or query, at most `MAX_ROWS`.

    Raises:
        DataError: there is no such table. A retry cannot help.
        SpecError: the URL cannot be used. A retry cannot help.
        ServiceError: the database does not answer. A retry can help.
    """
    url = sql_session.parse_url(source, url_env="")
    origin = sql_session.describe_url(url)
    table = request.table if request.query else request.table or ask("table", f"{origin}: no table is named.", ())
    with sql_session.connect(url, origin, request.timezone) as connection:
        types = sql_session.find_types(connection, table, request.query, declared_types=None, origin=origin)
        selectable = sql_session.build_selectable(table, request.query, list(types))
        statement = sa.select(*selectable.c).limit(MAX_ROWS)
        rows = [row for batch in sql_session.stream_rows(connection, statement) for row in batch]
    zone, position = Zone(request.timezone), Position(origin)
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays = {
        name: build_array(list(values), column_type, zone, name, position)
        for (name, column_type), values in zip(types.items(), columns, strict=True)
    }
    return Sample("database", source, pa.table(arrays), is_complete=len(rows) < MAX_ROWS)


def read_api(request: Request, source: str) -> Sample:
    """Read days of an API whose address has {date}, until `MAX_ROWS` rows or `MAX_API_DAYS` days are read.

    Raises:
        SpecError: the address has no {date}, or the days to read are not given. A retry cannot help.
        DataError: the API has no such page, or no list of rows. A retry cannot help.
        ServiceError: the API does not answer. A retry can help.
    """
    from pipelines.ingestion.sources import HttpSource

    if not request.first or not request.last:
        raise SpecError("an HTTP API does not say which days it has.", "Give --first and --last, YYYY-MM-DD.")
    finder = LinkFinder(source, request.first)
    tables, row_count = [], 0
    for day in islice(Days(request.first, request.last), MAX_API_DAYS):
        finder.day = day
        api = HttpSource(source, rows=request.rows, timezone=request.timezone, pages=finder)
        table = api.read(day).read_all()
        if table.num_rows:
            tables.append(table)
        row_count += table.num_rows
        if row_count >= MAX_ROWS:
            break
    if not tables:
        raise DataError(f"{source.partition('?')[0]} has no rows from {request.first} to {request.last}.")
    rows = pa.concat_tables(tables, promote_options="permissive")
    return Sample("api", source, rows, has_files_by_day=True, next_path=finder.path)
