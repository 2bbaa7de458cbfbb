"""Requests by column name give the same scores as JSON lines, and a wrong one gives an error with column and row."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xgboost as xgb

from drydock.host.request_context import Context, RequestProcessor
from pipelines.container import inference
from pipelines.container.inference import NAMES_FILE, Prediction
from pipelines.container.serving import tables
from pipelines.container.serving.arrow_sizes import sum_expanded_bytes
from pipelines.container.serving.tables import ARROW, CSV, JSON, LINES, PARQUET, BadRequest
from pipelines.datasets.flights import DATASET
from pipelines.defaults.model import Model, Schema
from pipelines.registry.package.packaging import save_package

# MLflow warns about its own type hints at its first import, and about integers, which cannot be missing.
pytestmark = pytest.mark.filterwarnings("ignore:.*(type hint|nteger column)")

ROWS = pd.DataFrame({"distance": [0.1, 1e-17, None], "hour": [1, 12, 23], "carrier": ["AA", "B,B", "CC"]})
GOOD: dict[str, Any] = {"distance": 0.1, "hour": 1, "carrier": "AA"}


FEATURES = {"distance": "number", "hour": "number", "carrier": "category"}


def train(task: str) -> Model:
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"distance": random.uniform(-1, 1, 500), "hour": random.integers(0, 24, 500)})
    frame["carrier"] = random.choice(["AA", "B,B", "CC"], 500)
    value = frame["distance"] + frame["hour"] + frame["carrier"].str.len() * 4
    classes = np.where(value > 25, "late", np.where(value < 12, "early", "on"))
    labels: dict[str, Any] = {
        "binary": (value + random.normal(0, 8, 500) > 18).astype(int),
        "regression": value,
        "multiclass": classes,
    }
    frame["label"] = labels[task]
    schema = Schema.fit(frame, {"features": FEATURES, "label": "label", "task": task}, [])
    options: dict[str, dict[str, Any]] = {
        "binary": {"objective": "binary:logistic"},
        "regression": {"objective": "reg:squarederror"},
        "multiclass": {"objective": "multi:softprob", "num_class": 3},
    }
    return Model(xgb.train({**options[task], "max_depth": 4, "nthread": 1}, schema.to_matrix(frame), 10), schema)


@pytest.fixture(scope="module", params=["binary", "regression", "multiclass"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Any]:
    """Return a trained model, and the same one loaded from its package."""
    folder = tmp_path_factory.mktemp(request.param)
    model = train(request.param)
    model.save(folder / "model")
    dataset = replace(DATASET, task=request.param, features=FEATURES)
    save_package(dataset, folder / "model", ROWS, folder / "package")
    (folder / "package" / "code" / NAMES_FILE).write_text('{"model": "flights", "version": "4"}')
    with pytest.MonkeyPatch.context() as patch:  # MLflow adds the package's code to Python's path, for all later tests
        patch.setattr(sys, "path", list(sys.path))
        return model, inference.model_fn(str(folder / "package"))


@pytest.fixture
def model(trained: tuple[Model, Any]) -> Any:
    return trained[1]


def answer(model: Any, body: bytes | str, content_type: str, accept: str = LINES) -> str:
    return inference.output_fn(inference.predict_fn(inference.input_fn(body, content_type), model), accept).body


def encode(content_type: str) -> bytes:
    if content_type == JSON:
        return json.dumps(ROWS.astype(object).where(ROWS.notna(), None).to_dict("records")).encode()
    if content_type == CSV:
        return ROWS.to_csv(index=False).encode()
    table, sink = pa.Table.from_pandas(ROWS, preserve_index=False), io.BytesIO()
    if content_type == PARQUET:
        ROWS.to_parquet(sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("content_type", [JSON, CSV, PARQUET, ARROW, "text/csv; charset=utf-8"])
def test_all_content_types_give_the_scores_of_json_lines(model: Any, content_type: str) -> None:
    lines = answer(model, '[0.1, 1, "AA"]\n[1e-17, 12, "B,B"]\n[null, 23, "CC"]', LINES)
    assert len(set(lines.splitlines())) == len(ROWS)
    assert answer(model, encode(content_type.partition(";")[0]), content_type) == lines


def test_scores_are_the_bits_of_the_trained_model(trained: tuple[Model, Any]) -> None:
    model, packaged = trained
    expected = model.score(ROWS)
    scores = json.loads(answer(packaged, encode(JSON), JSON, JSON))["scores"]
    if isinstance(expected, pd.DataFrame):
        assert scores == [{str(name): float(value) for name, value in row.items()} for _, row in expected.iterrows()]
    else:
        assert scores == [float(value) for value in expected]


def test_order_of_columns_does_not_matter_and_one_object_is_a_row(model: Any) -> None:
    assert answer(model, json.dumps(dict(reversed(GOOD.items()))), JSON) == answer(model, '[0.1, 1, "AA"]', LINES)


def test_columns_of_the_key_are_accepted_and_not_read(model: Any) -> None:
    # the dataset's key is date, carrier, flight and origin; carrier is a feature, too
    row = {**GOOD, "date": "2013-02-01", "flight": "any", "origin": None}
    assert answer(model, json.dumps(row), JSON) == answer(model, json.dumps(GOOD), JSON)


def test_classes_are_named() -> None:
    scores = pd.DataFrame({"late": [0.25], "on time": [0.75]})
    content = json.loads(inference.output_fn(Prediction(scores), JSON).body)
    assert uuid.UUID(content.pop("request_id"))
    assert content == {"scores": [{"late": 0.25, "on time": 0.75}]}
    assert inference.output_fn(Prediction(scores), LINES) == ("[0.25, 0.75]", LINES)


def test_json_answers_have_model_version_and_the_id_of_the_request(trained: tuple[Model, Any]) -> None:
    prediction = inference.predict_fn(inference.input_fn(json.dumps(GOOD), JSON), trained[1])
    context = Context("unused")

    def read(**headers: str) -> dict[str, Any]:
        sent_headers = {f"X-Amzn-SageMaker-{name.replace('_', '-')}": value for name, value in headers.items()}
        context.request_processor = [RequestProcessor(sent_headers)]
        return json.loads(inference.output_fn(prediction, JSON, context).body)

    content = read(Inference_Id="flight-7")
    assert list(content) == ["model", "version", "request_id", "scores", "latency_ms"]
    assert 0 < content["latency_ms"] < 60_000
    assert (content["model"], content["version"], content["request_id"]) == ("flights", "4", "flight-7")
    assert read(inference_id="lower-case")["request_id"] == "lower-case"
    for wrong in ("a b", "\n", "", "x" * 65):
        assert uuid.UUID(read(Inference_Id=wrong)["request_id"])
    assert inference.output_fn(prediction, LINES, context) == inference.output_fn(prediction, LINES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hour": "1"}, "row 2, column hour: '1' is not a long"),
        ({"hour": True}, "row 2, column hour: 'True' is not a long"),
        ({"hour": 2**63}, "row 2, column hour: .* is not a long"),
        ({"hour": None}, "row 2, column hour: a long must not be missing"),
        ({"distance": 10**400}, "row 2, column distance: .* is not a double"),
        ({"carrier": 5}, "row 2, column carrier: '5' is not a string"),
        ({"carrier": "\ud800"}, "row 2, column carrier: .* is not a string"),
        ({"distance": 1e300}, r"row 2, column distance: 1e\+300 is too large for the model"),
        ({"speed": 5}, "row 2 has columns that are not features of the model: speed"),
        ({"distance": float("nan")}, "NaN is not JSON: send null"),
    ],
)
def test_wrong_value_names_row_and_column(model: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message) as raised:
        answer(model, json.dumps([GOOD, GOOD | change]), JSON)
    assert raised.value.status_code == 400


@pytest.mark.parametrize(
    ("body", "content_type", "status_code", "message"),
    [
        ('{"hour": 1}', JSON, 400, "row 1 lacks the columns distance, carrier"),
        ('{"hour": 1, "hour": 2}', JSON, 400, "column hour occurs more than once"),
        ("[", JSON, 400, "the body is not application/json"),
        ("[" * 100_000, JSON, 400, "the body is not application/json"),
        ("[1]", JSON, 400, "row 1 is not an object"),
        ("[]", JSON, 400, "no rows"),
        ("distance,hour,carrier\n1,2", CSV, 400, "row 1 has 2 values"),
        ("distance,hour,carrier\nnan,2,AA", CSV, 400, "row 1, column distance: 'nan' is not a double"),
        ("distance,hour,carrier\n1_000,2,A_A", CSV, 400, "row 1, column distance: '1_000' is not a double"),
        (b"PAR1", PARQUET, 400, "the body is not application/vnd.apache.parquet"),
        (b"x", ARROW, 400, "the body is not application/vnd.apache.arrow.stream"),
        (b" " * (tables.MAX_BYTES + 1), JSON, 413, "send at most"),
        ("hour\n" + "1\n" * (tables.MAX_ROWS + 1), CSV, 413, "100001 rows"),
        ("x", "text/plain", 415, "content type text/plain is not supported"),
        (b'[0.1, 1, "AA"]\n{', LINES, 400, "row 2 is not JSON: Expecting property name"),
        (b"", LINES, 400, "the request has no rows"),
        ("[" * 100_000, LINES, 400, "row 1 is not JSON"),
        (b'[0.1, 1, "\xff"]', LINES, 400, "row 1 is not JSON: 'utf-8' codec can't decode"),
        (json.dumps(GOOD), LINES, 400, "row 1 is not a list of values: send rows by column name as application/json"),
        ("[0.1, 1]", LINES, 400, "row 1 has 2 values, and lacks the columns carrier"),
        ("[0.1, 1, 2, 3]", LINES, 400, "row 1 has 4 values, but the model has 3 features"),
        ('[0.1, 1, "AA"]\n[NaN, 1, "AA"]', LINES, 400, "row 2, column distance: 'nan' is not a double"),
        ('[-Infinity, 1, "AA"]', LINES, 400, "row 1, column distance: '-inf' is not a double"),
        ('["0.1", 1, "AA"]', LINES, 400, "row 1, column distance: '0.1' is not a double"),
        ('[0.1, null, "AA"]', LINES, 400, "row 1, column hour: a long must not be missing"),
        ('[1e300, 1, "AA"]', LINES, 400, "row 1, column distance: 1e\\+300 is too large for the model"),
    ],
)
def test_bad_request(model: Any, body: bytes | str, content_type: str, status_code: int, message: str) -> None:
    with pytest.raises(BadRequest, match=message) as raised:
        answer(model, body, content_type)
    assert (raised.value.status_code, "\n" in str(raised.value)) == (status_code, False)


TOOLKIT_ERRORS = """
class BaseInferenceToolkitError(Exception):
    def __init__(self, status_code, message, phrase):
        self.status_code, self.message, self.phrase = status_code, message, phrase
"""
PRINT_ERROR = """
from sagemaker_inference.errors import BaseInferenceToolkitError
from pipelines.container.serving.tables import parse_lines
try:
    parse_lines(b"{")
except BaseInferenceToolkitError as error:
    print(error.status_code, error.phrase, error.message[:17])
"""


def test_a_bad_request_is_an_error_of_the_inference_toolkit_where_there_is_one(tmp_path: Path) -> None:
    """SageMaker's toolkit reads the status only of its own errors. It is not installed here: this is its interface."""
    (tmp_path / "sagemaker_inference").mkdir()
    (tmp_path / "sagemaker_inference" / "__init__.py").touch()
    (tmp_path / "sagemaker_inference" / "errors.py").write_text(TOOLKIT_ERRORS)
    environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[4]}:{tmp_path}"}
    process = subprocess.run([sys.executable, "-c", PRINT_ERROR], env=environment, capture_output=True, text=True)
    assert process.stdout == "400 Bad Request row 1 is not JSON\n", process.stderr


@pytest.mark.parametrize("content_type", [PARQUET, ARROW])
def test_small_body_with_large_rows_is_refused(content_type: str) -> None:
    sink, schema = io.BytesIO(), pa.schema([("carrier", pa.string())])
    batch = pa.record_batch([pa.array(["A" * 1024**2] * 10)], schema)
    is_parquet = content_type == PARQUET
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pq.ParquetWriter(sink, schema) if is_parquet else pa.ipc.new_stream(sink, schema, options=options) as writer:
        for _ in range(7):
            writer.write_batch(batch)
    body = sink.getvalue()
    assert len(body) < tables.MAX_BYTES
    with pytest.raises(BadRequest, match="the rows take more than") as error:
        inference.input_fn(body, content_type)
    assert error.value.status_code == 413


def test_other_response_type_is_refused() -> None:
    for accept in (CSV, "text/*", f"{JSON};q=0"):
        with pytest.raises(BadRequest, match="accept application/json or application/jsonlines") as error:
            inference.output_fn(Prediction([0.5]), accept)
        assert error.value.status_code == 406


@pytest.mark.parametrize("accept", ["", "*/*", "application/*", "application/json; charset=utf-8", f"{JSON}, */*"])
def test_an_answer_has_the_content_type_that_was_chosen(accept: str) -> None:
    """SageMaker's servers pass the whole header. The header of the answer must name one type."""
    answer = inference.output_fn(Prediction([0.5]), accept)
    assert json.loads(answer.body)["scores"] == [0.5] and answer.content_type == JSON
    # SageMaker's inference toolkit (1.5.5 and 1.10.1) and drydock read the content type from a pair.
    assert isinstance(answer, tuple) and len(answer) == 2
    assert inference.output_fn(Prediction([0.5]), f"{LINES}, {accept}") == ("0.5", LINES)


def test_json_lines_may_have_a_charset(model: Any) -> None:
    line = '[0.1, 1, "AA"]'
    assert answer(model, line, f"{LINES}; charset=utf-8") == answer(model, line, LINES)
    with pytest.raises(BadRequest, match="content type application/jsonl is not supported"):
        inference.input_fn(line, "application/jsonl")


def write_stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_the_expanded_size_of_a_stream_is_read_without_expanding_it(compression: str | None) -> None:
    texts, small = ["A" * 1000, None, "B"], pa.array(["x", "y", "x"]).dictionary_encode()
    for repeats in (1, 1000):
        batch = pa.record_batch({"text": texts * repeats, "number": [1.5, None, 2.0] * repeats})
        expanded_bytes = sum_expanded_bytes(write_stream(batch, compression))
        assert batch.nbytes <= expanded_bytes < batch.nbytes + 500
    assert sum_expanded_bytes(write_stream(pa.record_batch({"text": small}), compression)) >= small.nbytes


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_one_large_batch_is_refused_before_it_is_expanded(compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = write_stream(pa.record_batch({"text": ["A" * (tables.MAX_EXPANDED_BYTES + 1)]}), compression)
    assert len(body) < tables.MAX_BYTES
    before = pa.total_allocated_bytes()
    monkeypatch.setattr(tables, "_list_rows", lambda batches: pytest.fail("it was expanded"))
    with pytest.raises(BadRequest, match="the rows take more than") as error:
        inference.input_fn(body, ARROW)
    assert error.value.status_code == 413 and pa.total_allocated_bytes() - before < 1024**2


def test_a_long_value_that_many_rows_share_is_refused() -> None:
    """The control is a short one."""
    for length, is_refused in ((10, False), (100_000, True)):
        values = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["A" * length])
        body = write_stream(pa.record_batch({"text": values}))
        if is_refused:
            with pytest.raises(BadRequest, match="the rows take more than"):
                inference.input_fn(body, ARROW)
        else:
            assert inference.input_fn(body, ARROW) == tables.Table([{"text": "A" * length}] * 1000)


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.string_view(), pa.struct([("a", pa.int8())]), pa.binary()])
def test_a_column_of_another_kind_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(BadRequest, match=r"column a has the type .*: send numbers, texts, dates or times"):
        inference.input_fn(write_stream(pa.record_batch({"a": pa.nulls(1, kind)})), ARROW)


def test_a_damaged_stream_is_a_bad_request() -> None:
    random, outcomes = np.random.default_rng(4), set[int]()
    body = write_stream(pa.record_batch({"text": ["x", None, "yz"], "number": [1.5, None, 2.0]}), "zstd")
    for _ in range(300):
        damaged = bytearray(body)
        for position in random.integers(0, len(body), 3):
            damaged[position] = random.integers(0, 256)
        try:
            inference.input_fn(bytes(damaged), ARROW)
            outcomes.add(200)
        except BadRequest as error:
            outcomes.add(error.status_code)
    assert {200, 400} <= outcomes <= {200, 400, 413}
