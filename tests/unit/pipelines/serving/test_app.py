"""The server answers raw rows with the bits of the model, and a wrong request with one line that says what is wrong."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.container.serving.feature_query import connect
from pipelines.container.serving.row_features import RowFeatures
from pipelines.container.serving.tables import ARROW, CSV, JSON, LINES, MAX_BYTES, PARQUET
from pipelines.datasets.flights import DATASET
from pipelines.datasets.flights import features as flights_features
from pipelines.serving import app as app_module
from pipelines.serving.compilation import compile_features


def encode(rows: list[dict[str, Any]], day: pa.Table, content_type: str) -> bytes:
    """Encode rows of the day, which are its first ones."""
    table = day.select(list(rows[0])).slice(0, len(rows))
    if content_type == CSV:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    sink = io.BytesIO()
    if content_type == PARQUET:
        pq.write_table(table, sink)
    elif content_type == ARROW:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    else:
        return json.dumps(rows).encode()
    return sink.getvalue()


@pytest.mark.parametrize("content_type", [JSON, CSV, PARQUET, ARROW, f"{JSON}; charset=utf-8"])
def test_every_content_type_has_the_bits_of_the_model(
    client: Any, rows: Any, day: pa.Table, scores_of_day: Any, content_type: str
) -> None:
    response = client.invoke(encode(rows, day, content_type), content_type)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert (answer["model"], answer["version"]) == ("flights", "7")
    assert answer["scores"] == [float(score) for score in scores_of_day]
    assert len(set(answer["scores"])) > 100


def test_one_row_is_an_object_or_a_list_of_one(client: Any, rows: Any) -> None:
    one, many = client.invoke(rows[0]).json(), client.invoke([rows[0]]).json()
    assert one["scores"] == many["scores"] != client.invoke(rows[1]).json()["scores"]


def test_columns_that_no_feature_reads_may_be_left_out(client: Any, rows: Any) -> None:
    fewer = {name: value for name, value in rows[0].items() if name not in {"flight", "tailnum", "scheduled_at"}}
    assert client.invoke(fewer).json()["scores"] == client.invoke(rows[0]).json()["scores"]


def test_classes_and_quantiles_are_objects(make_client: Any, rows: Any) -> None:
    scorer = lambda frame: pd.DataFrame({"early": [0.25] * len(frame), "late": [0.75] * len(frame)})  # noqa: E731
    assert make_client(scorer=scorer).invoke(rows[:2]).json()["scores"] == [{"early": 0.25, "late": 0.75}] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": "far"}, r"row 2, column distance: 'far' is not a whole number \(int32\)"),
        ({"distance": 2**31}, "row 2, column distance: '2147483648' is not a whole number"),
        ({"distance": 1.5}, "row 2, column distance: '1.5' is not a whole number"),
        ({"distance": True}, "row 2, column distance: 'True' is not a whole number"),
        ({"weather_temp": "35"}, "row 2, column weather_temp: '35' is not a finite number"),
        ({"weather_temp": [1]}, "row 2, column weather_temp: .* is not a finite number"),
        ({"dest": 5}, "row 2, column dest: '5' is not a text"),
        ({"dest": "\ud800"}, "row 2, column dest: .* is not a text"),
        ({"date": "yesterday"}, r"row 2, column date: 'yesterday' is not a date \(YYYY-MM-DD\)"),
        ({"date": "2013-02-30"}, "row 2, column date: '2013-02-30' is not a date"),
        ({"date": None}, "row 2, column date: a value of the key must not be missing"),
        ({"scheduled_at": "2013-02-01T10:00:00"}, "row 2, column scheduled_at: .* is not a time with an offset"),
        ({"gate": 4}, "row 2 has unknown columns: gate. The columns of a row are date, carrier"),
        ({"arr_delay": 4, "gate": 4}, "row 2 has columns that are not known before the prediction: arr_delay"),
        ({"late": True}, "row 2 has columns that are not known before the prediction: late"),
    ],
)
def test_a_wrong_value_names_row_and_column(client: Any, rows: Any, change: dict[str, Any], message: str) -> None:
    response = client.invoke([rows[0], {**rows[1], **change}])
    assert response.status_code == 400
    assert re.search(message, response.json()["error"]), response.text
    assert "\n" not in response.json()["error"] and list(response.json()) == ["error"]
    assert client.invoke(rows[:2]).status_code == 200


@pytest.mark.parametrize("count", [1, 2])
def test_a_value_from_which_no_feature_can_be_computed_is_a_bad_request(
    make_client: Any, day: pa.Table, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    large_product = lambda rows: rows.mutate(x=rows.distance.cast("int64") * 2**40)  # noqa: E731
    monkeypatch.setattr(flights_features, "features", large_product)
    dataset = replace(DATASET, features={"x": "number"})
    compiled = compile_features(dataset, day.schema, has_lookups=False)
    with closing(connect()) as connection:
        client = make_client(row_features=RowFeatures(compiled, connection), scorer=lambda frame: frame["x"])
        response = client.invoke([{"distance": 1}] * (count - 1) + [{"distance": 2**30}])
        assert (response.status_code, list(response.json())) == (400, ["error"])
        assert response.json()["error"].startswith("the features cannot be computed from these rows: Out of Range")
        assert client.invoke([{"distance": 1}] * count).json()["scores"] == [2.0**40] * count


def test_an_answer_does_not_repeat_a_long_name(client: Any) -> None:
    name = "x" * 1_000_000
    response = client.invoke(f'{{"{name}": 1, "{name}": 2}}'.encode())
    assert response.status_code == 400 and response.json()["error"].startswith("column xxx")
    assert len(response.content) < 2000


def test_a_column_that_a_feature_reads_is_required(client: Any, rows: Any) -> None:
    fewer = {name: value for name, value in rows[0].items() if name not in {"distance", "dest"}}
    response = client.invoke(fewer)
    assert (response.status_code, response.json()["error"][:40]) == (400, "row 1 lacks the columns dest, distance: ")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "message"),
    [
        (b"{", JSON, 400, "the body is not application/json"),
        (b"[" * 100_000, JSON, 400, "the body is not application/json"),
        (b'{"distance": NaN}', JSON, 400, "NaN is not JSON: send null for a missing value"),
        (b"", JSON, 400, "the body is not application/json"),
        (b"[]", JSON, 400, "the request has no rows"),
        (b"5", JSON, 400, "row 1 is not an object"),
        (b"\xff\xfe", CSV, 400, "the body is not text/csv"),
        (b"a,a\n1,2\n", CSV, 400, "column a occurs more than once"),
        (b"PAR1", PARQUET, 400, "the body is not application/vnd.apache.parquet"),
        (b"x", ARROW, 400, "the body is not application/vnd.apache.arrow.stream"),
        (b"[1]", LINES, 415, "content type application/jsonlines is not supported: send one of application/json, text"),
        (b"{}", "", 415, "content type none is not supported"),
        (b" " * (MAX_BYTES + 1), JSON, 413, f"the body has {MAX_BYTES + 1} bytes"),
        (b"[" + b"{}," * 100_001 + b"{}]", JSON, 413, "send at most 100000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_body_leaves_the_server_serving(
    client: Any, rows: Any, body: bytes, content_type: str, status: int, message: str
) -> None:
    response = client.invoke(body, content_type)
    assert (response.status_code, list(response.json())) == (status, ["error"])
    assert message in response.json()["error"] and "\n" not in response.json()["error"]
    assert client.invoke(rows[0]).status_code == 200


@pytest.mark.parametrize("name", ["dest", "distance", "weather_temp"])
@pytest.mark.parametrize("text", ["nan", "inf", "1_000", "x"])
def test_a_csv_is_checked_as_text(client: Any, rows: Any, day: pa.Table, name: str, text: str) -> None:
    body = encode([{**rows[0], name: text}], day, CSV)
    response = client.invoke(body, CSV)
    assert response.status_code == (200 if name == "dest" else 400), response.text
    assert name == "dest" or f"row 1, column {name}: {text!r} is not a" in response.json()["error"]


def test_a_missing_value_of_a_csv_is_empty(client: Any, rows: Any, day: pa.Table) -> None:
    row = {**rows[0], "plane_year": None, "dest": None}
    assert client.invoke(encode([row], day, CSV), CSV).json()["scores"] == client.invoke(row).json()["scores"]


def test_a_nan_of_arrow_is_refused(client: Any, rows: Any, day: pa.Table) -> None:
    table = day.select(list(rows[0])).slice(0, 1)
    temperature = table.schema.get_field_index("weather_temp")
    table = table.set_column(temperature, "weather_temp", pa.array([float("nan")]))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    response = client.invoke(sink.getvalue(), ARROW)
    assert (response.status_code, response.json()["error"]) == (
        400, "row 1, column weather_temp: 'nan' is not a finite number",
    )  # fmt: skip


def test_not_more_than_the_limit_of_a_body_is_read(client: Any) -> None:
    """A body without Content-Length is read in parts; the rest of a body that is too large is not."""
    sent: list[int] = []

    async def send_parts() -> AsyncIterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b" " * 1024**2

    response = client.invoke(send_parts())
    assert response.status_code == 413 and f"more than {MAX_BYTES} bytes" in response.json()["error"]
    assert len(sent) < 10


@pytest.mark.parametrize(("accept", "status"), [
    ("", 200), ("*/*", 200), ("application/json", 200), ("text/html, application/*;q=0.5", 200),
    ("application/json; charset=utf-8", 200), ("application/jsonlines, application/json;q=0.1", 200),
    ("text/csv", 406), ("application/jsonlines", 406), ("application/json;q=0", 406),
])  # fmt: skip
def test_the_answer_is_json(client: Any, rows: Any, accept: str, status: int) -> None:
    response = client.invoke(rows[0], accept=accept)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")


@pytest.mark.parametrize("name", ["X-Amzn-SageMaker-Inference-Id", "X-Request-Id"])
def test_the_request_id_of_a_header_is_answered(client: Any, rows: Any, name: str) -> None:
    response = client.invoke(rows[0], **{name: "order-17"})
    assert response.json()["request_id"] == response.headers["x-request-id"] == "order-17"
    assert client.invoke(b"{", **{name: "order-18"}).headers["x-request-id"] == "order-18"


@pytest.mark.parametrize("value", ["", "x" * 65, "a b", "\x7f", "é"])
def test_a_request_without_a_valid_id_gets_a_new_one(client: Any, rows: Any, value: str) -> None:
    response = client.invoke(rows[0], **{"X-Request-Id": value.encode("latin-1")})
    assert str(uuid.UUID(response.json()["request_id"])) == response.headers["x-request-id"]
    assert client.invoke(rows[0]).json()["request_id"] != response.json()["request_id"]


def test_ping_names_the_version_and_what_a_request_does_not_have(client: Any) -> None:
    response = client.request("GET", "/ping")
    features = {"features_of_other_rows": ["departures_hour"]}
    assert (response.status_code, response.json()) == (200, {"model": "flights", "version": "7", **features})


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("GET", "/invocations", 405)])
def test_another_path_or_method_is_an_error_of_the_same_form(client: Any, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert response.status_code == status and "POST /invocations" in response.json()["error"]


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (lambda frame: np.full(len(frame), np.nan), "the model's score is not a number for 1 of 1 rows"),
        (lambda frame: frame["gate"], "the model failed: KeyError"),
        (lambda frame: 1 / 0, "the model failed: ZeroDivisionError"),
    ],
)
def test_a_model_that_fails_is_an_internal_error(make_client: Any, rows: Any, scorer: Any, message: str) -> None:
    response = make_client(scorer=scorer).invoke(rows[0])
    assert response.status_code == 500 and message in response.json()["error"]


def test_too_many_requests_at_a_time_are_refused(client: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MAX_PENDING_REQUESTS", 0)
    response = client.invoke(rows[0])
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(app_module, "MAX_PENDING_REQUESTS", 1)
    assert [client.invoke(rows[0]).status_code for _ in range(3)] == [200] * 3, "a request that ended does not count"


def test_a_body_that_does_not_arrive_is_given_up(client: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def send_slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)
        yield b"}"

    monkeypatch.setattr(app_module, "BODY_TIMEOUT_S", 0.05)
    response = client.invoke(send_slowly())
    assert (response.status_code, response.json()["error"]) == (408, "the body did not arrive within 0 s")
