"""Write the code that opens the source of a new dataset, and run it to check the source."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from pipelines.ingestion import sources
from pipelines.ingestion.sources.addresses import has_secret
from pipelines.ingestion.sources.layouts import Layout
from pipelines.ingestion.sources.timestamps import Zone, to_utc
from pipelines.lake import DATE_COLUMN
from pipelines.scaffold.literals import format_tuple, quote
from pipelines.scaffold.plan import Plan


def build_rows(plan: Plan) -> pa.Table:
    """Return the rows of the sample in the types in which the new source reads them, sorted by day."""
    arrays = dict[str, pa.Array]()
    for name, column_type in list_columns(plan).items():
        if name == plan.label.name:
            arrays[name] = plan.label.values
        elif pa.types.is_timestamp(column_type):
            arrays[name] = to_utc(plan.columns[name].values, Zone(plan.request.timezone, "earliest"))
        else:
            arrays[name] = plan.columns[name].values.cast(column_type)
    arrays = {name: values for name, values in arrays.items() if name.lower() != DATE_COLUMN}
    return pa.table({**arrays, DATE_COLUMN: plan.days}).sort_by(DATE_COLUMN)


def build_source(plan: Plan) -> Any:
    """Build the source in this process, from the same code as in its file source.py.

    If the address has a secret, set the environment variable from which this code reads the address.
    """
    if secret_variable := find_secret_variable(plan):
        os.environ[secret_variable] = plan.sample.url
    names = {name: getattr(sources, name) for name in sources.__all__}
    names |= {"COLUMNS": list_columns(plan), "URL": plan.sample.url}
    # `describe_source` writes this expression. Texts from the data are in it only as literals.
    return eval(describe_source(plan)["expression"], names)  # noqa: S307


def describe_source(plan: Plan) -> dict[str, Any]:
    """Return the values for the template of source.py, among them the code that opens the source."""
    sample, request = plan.sample, plan.request
    class_name = {"database": "SqlSource", "api": "HttpSource"}.get(sample.kind, "FileSource")
    secret_variable = find_secret_variable(plan)
    arguments = {"url": f"read_address({quote(secret_variable)})" if secret_variable else "URL", "columns": "COLUMNS"}
    if class_name == "FileSource":
        arguments = {"url": arguments["url"], "format": quote(sample.kind), "columns": "COLUMNS"}
        arguments |= _list_file_arguments(plan)
    if class_name == "SqlSource":
        arguments = _list_database_arguments(plan, secret_variable)
    if class_name == "HttpSource":
        arguments |= _list_api_arguments(plan)
    if plan.time:
        arguments["day"] = quote(plan.time)
    if class_name != "SqlSource":
        arguments["extra"] = quote("ignore")
    arguments["timezone"] = quote(request.timezone)
    if class_name == "FileSource" and plan.has_time_of_day and request.timezone != "UTC":
        arguments["day_timezone"] = quote(request.timezone)
    expression = f"{class_name}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    lines = "".join(f"        {name}={value},\n" for name, value in arguments.items())
    opening, returns = f"return {class_name}(\n{lines}    )", class_name
    imports = [class_name, "LinkHeader"] if class_name == "HttpSource" else [class_name]
    if plan.label.texts:
        true, false = map(quote, plan.label.texts)
        label_arguments = [quote(plan.label.name), f"true={true}", f"false={false}"]
        expression = f"TrueFalse({', '.join([expression, *label_arguments])})"
        opening = f"source = {class_name}(\n{lines}    )\n    return TrueFalse(\n"
        opening += "".join(f"        {argument},\n" for argument in ["source", *label_arguments]) + "    )"
        returns, imports = "TrueFalse", [*imports, "TrueFalse"]
    if arguments.get("url", "URL") != "URL":
        imports.append("read_address")
    return {
        "expression": expression,  # the code that opens the source, on one line
        "opening": opening,  # the same code as the body of a function
        "returns": returns,  # the class of the source
        "imports": ", ".join(imports),
        "variable": "" if secret_variable else f"{request.name.upper()}_SOURCE",  # of a user's own address
    }


def find_secret_variable(plan: Plan) -> str:
    """Return the environment variable that holds the address, if the address has a secret; else an empty text."""
    return f"{plan.request.name.upper()}_URL" if has_secret(plan.sample.url) else ""


def list_columns(plan: Plan) -> dict[str, pa.DataType]:
    """Return the columns that are read and their types, in the order of the source."""
    used_names = {plan.time, plan.label.name, *plan.key, *plan.features, *plan.known_later} - {""}
    columns = {}
    for name in plan.sample.table.column_names:
        if name not in used_names or name not in plan.columns:
            continue
        column = plan.columns[name]
        columns[name] = plan.label.type if name == plan.label.name else column.type
        if name in plan.key and name != plan.label.name and column.is_integer:
            columns[name] = pa.int64()
    return columns


def _list_file_arguments(plan: Plan) -> dict[str, str]:
    sample = plan.sample
    arguments = dict[str, str]()
    times = plan.columns[plan.time].time if plan.time else None
    if times and times.formats:
        arguments["time_formats"] = format_tuple(times.formats)
    if sample.kind != "csv":
        return arguments
    defaults = Layout()
    if sample.delimiter != defaults.delimiter:
        arguments["delimiter"] = quote(sample.delimiter)
    if sample.encoding != defaults.encoding:
        arguments["encoding"] = quote(sample.encoding)
    if sample.decimal_point != defaults.decimal_point:
        arguments["decimal_point"] = quote(sample.decimal_point)
    if not sample.has_final_newline:
        arguments["final_newline"] = "False"
    used_names = list_columns(plan)
    nulls = dict.fromkeys(text for name in used_names for text in plan.columns[name].null_texts)
    if nulls:
        arguments["nulls"] = format_tuple(["", *nulls])
    return arguments


def _list_api_arguments(plan: Plan) -> dict[str, str]:
    rows, path = plan.request.rows, plan.sample.next_path
    return {**({"rows": quote(rows)} if rows else {}), "pages": f"LinkHeader({quote(path) if path else ''})"}


def _list_database_arguments(plan: Plan, variable: str) -> dict[str, str]:
    request = plan.request
    selection = {"query": quote(request.query)} if request.query else {"table": quote(request.table)}
    address = {"url_env": quote(variable)} if variable else {"url": "URL"}
    return {**selection, **address, "columns": "COLUMNS", "order_by": format_tuple(list(plan.key) or [plan.time])}
