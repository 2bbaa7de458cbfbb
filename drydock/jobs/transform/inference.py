"""Load a model with its own inference.py, and transform the S3 objects that one host of a transform job downloaded.

This is a stand-alone program: it is copied into the job's folder tree, and needs only the standard library, since it
may run in a container. On SageMaker, two programs do this work. The model server in the container calls the functions
of the model's code. SageMaker's agent splits the objects into requests, sends them to the model server, and joins the
responses. This program does the work of both.
"""

# ruff: noqa: PTH123, T201

import gzip
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from drydock.host.model_code import load_model

PROGRAM_FILE = "transform.py"
"""Name of this program in the job's code folder."""
OPTIONS_FILE = "transform.json"
"""Name of the JSON file with the program's options, in the same folder."""
DEFAULT_TYPE = "application/json"
"""Content type of requests, and of the wanted responses, if CreateTransformJob names none."""
EXIT_BAD_INPUT = 4
"""Exit code if a record is too large for a request. After an error of the model's code the exit code is 1."""

# Returns the body of the response to a request, given the body of the request.
AnswerRequest = Callable[[bytes], bytes]


class BadInput(Exception):
    """A record is too large for a request. A retry cannot help."""


def main(base: Path) -> int:
    """Transform each input object, and write the model's responses for it to an .out file.

    Args:
        base: The job's tree.

    Returns:
        0 if each object has an .out file; 1 if the model cannot be loaded; otherwise the exit code of the first object
        without an .out file. /opt/ml/output/failure has the first error.
    """
    try:
        options = json.loads((base / "code" / OPTIONS_FILE).read_text(encoding="utf-8"))
        predict = load_model(base / "model")
    except (Exception, SystemExit) as error:
        return report_exception(base, error)
    source = base / "input" / "data" / "transform"
    objects = sorted(path for path in source.rglob("*") if path.is_file())

    headers = {"Content-Type": options["content_type"], "Accept": options["accept"]}

    def answer(body: bytes) -> bytes:
        return predict(body, options["content_type"], options["accept"], headers).body

    exit_codes = [transform_object(base, path.relative_to(source), options, answer) for path in objects]
    return next(filter(None, exit_codes), 0)


def transform_object(base: Path, name: Path, options: Mapping[str, Any], answer: AnswerRequest) -> int:
    """Write the .out file of one object, or report why it has none. Return the exit code."""
    partial_file = base / "output" / "partial"
    try:
        write_responses(base / "input" / "data" / "transform" / name, partial_file, options, answer)
        move_to_final_name(partial_file, base / "output" / "data" / build_output_name(name))
    except BadInput as error:
        return report_failure(base, str(error), EXIT_BAD_INPUT)
    except (Exception, SystemExit) as error:
        return report_exception(base, error)
    print("transformed", name)
    return 0


def build_output_name(name: Path) -> Path:
    """Return the name of an object's output file."""
    return name.with_name(f"{name.name}.out")


def report_exception(base: Path, error: BaseException) -> int:
    """Log an exception of the model's code, and report it as the failure. Return exit code 1.

    A SystemExit with code 0 is a failure, too.
    """
    traceback.print_exc()
    return report_failure(base, f"{type(error).__name__}: {error}", 1)


def report_failure(base: Path, message: str, exit_code: int) -> int:
    """Write a message to /opt/ml/output/failure, unless the file exists already. Return the exit code."""
    print(message, file=sys.stderr)
    path = base / "output" / "failure"
    if not path.exists():
        path.write_text(message, encoding="utf-8")
    return exit_code


def write_responses(path: Path, output_file: Path, options: Mapping[str, Any], answer: AnswerRequest) -> None:
    """Write the model's responses for the object at path to output_file, in the order of the object's records."""
    with (gzip.open if options["is_gzip"] else open)(path, "rb") as source, open(output_file, "wb") as target:
        for body in split_into_requests(source, options):  # type: ignore[arg-type]
            response = answer(body)
            target.write(response)
            if options["joins_with_newline"] and not response.endswith(b"\n"):
                target.write(b"\n")


def move_to_final_name(partial_file: Path, output_file: Path) -> None:
    """Move a complete file to its final name, atomically: the server uploads every file with a final name."""
    output_file.parent.mkdir(parents=True, exist_ok=True)
    partial_file.replace(output_file)


def split_into_requests(source: IO[bytes], options: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the bodies of the requests for one object.

    Raises:
        BadInput: A record is larger than a request may be. A retry cannot help.
    """
    if not options["splits_by_line"]:
        return iter([check_size(source.read(), options)])
    records = (check_size(line.removesuffix(b"\n"), options) for line in source)
    return records if options["has_single_records"] else join_records(records, options["max_bytes"])


def check_size(record: bytes, options: Mapping[str, Any]) -> bytes:
    """Return a record if it fits into a request.

    Raises:
        BadInput: The record is too large. A retry cannot help.
    """
    if 0 < options["max_bytes"] < len(record):
        raise BadInput(f"a record of {len(record)} bytes is more than MaxPayloadInMB: {options['max_bytes']} bytes")
    return record


def join_records(records: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield request bodies, each with as many records as fit into max_bytes (0: no limit), one record a line."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if batch and 0 < max_bytes < size + len(record):
            yield b"\n".join(batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record) + 1
    if batch:
        yield b"\n".join(batch)


if __name__ == "__main__":
    sys.exit(main(Path(os.environ["SAGEMAKER_BASE_DIR"])))
