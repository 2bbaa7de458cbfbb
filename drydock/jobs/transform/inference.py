"""A transform job's process: loads the model by its own inference.py, and asks it of every object, as SageMaker does.

A program by itself, of the standard library: it is copied into the job's tree, and may run in an image. It stands for
both ends of SageMaker's batch transform: the server in the container, whose script-mode contract it keeps (model_fn;
input_fn, predict_fn and output_fn, or transform_fn; each may take the context as one more argument, which is None
here), and the agent that splits the objects, asks the server and assembles what it answers.
"""

# ruff: noqa: PTH123, T201

import gzip
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

PROGRAM, ASKED = "transform.py", "transform.json"
DEFAULT_TYPE = "application/json"
# The toolkit hands these to input_fn as text, all others as bytes.
TEXTS = ("application/json", "text/csv")
BAD_INPUT = 4
"""Exit code where the input is at fault, and not the model."""

Answer = Callable[[bytes], bytes]


class BadInput(Exception):
    """A record that no request can hold."""


def main(base: Path) -> int:
    """Each object of the channel that the model could answer for has its .out.

    Returns:
        The exit code, of the first object without one; /opt/ml/output/failure says why it has none.
    """
    try:
        asked = json.loads((base / "code" / ASKED).read_text(encoding="utf-8"))
        answer = served(base / "model", asked["content_type"], asked["accept"])
    except (Exception, SystemExit) as error:
        return crashed(base, error)
    source = base / "input" / "data" / "transform"
    objects = sorted(one for one in source.rglob("*") if one.is_file())
    codes = [transformed(base, path.relative_to(source), asked, answer) for path in objects]
    return next(filter(None, codes), 0)


def transformed(base: Path, name: Path, asked: Mapping[str, Any], answer: Answer) -> int:
    """The object has its .out, or is told of in /opt/ml/output/failure. Returns the exit code."""
    made = base / "output" / "making"
    try:
        transform(base / "input" / "data" / "transform" / name, made, asked, answer)
        whole(made, base / "output" / "data" / output_of(name))
    except BadInput as error:
        return failed(base, str(error), BAD_INPUT)
    except (Exception, SystemExit) as error:
        return crashed(base, error)
    print("transformed", name)
    return 0


def output_of(name: Path) -> Path:
    """What the output of an object is called."""
    return name.with_name(f"{name.name}.out")


def crashed(base: Path, error: BaseException) -> int:
    """The log has what the model's own code raised, which may be a SystemExit of 0: that is no success."""
    traceback.print_exc()
    return failed(base, f"{type(error).__name__}: {error}", 1)


def failed(base: Path, said: str, code: int) -> int:
    """/opt/ml/output/failure holds what was said, where nothing was said before. Returns the code."""
    print(said, file=sys.stderr)
    place = base / "output" / "failure"
    if not place.exists():
        place.write_text(said, encoding="utf-8")
    return code


def served(model_dir: Path, content_type: str, accept: str) -> Answer:
    """Return what asks the model in model_dir, which is loaded.

    Raises:
        LookupError: Its code is not there, or lacks a function.
        ValueError: It has both transform_fn and a part of it.
    """
    code, name = model_dir / "code", os.environ["SAGEMAKER_PROGRAM"]
    if not (code / name).is_file():
        raise LookupError(f"no file code/{name} in the model data")
    sys.path.insert(0, str(code))
    module = importlib.import_module(name.removesuffix(".py"))
    model = call(function(module, "model_fn"), str(model_dir))
    steps = _steps(module)

    def answer(body: bytes) -> bytes:
        given = body.decode() if content_type in TEXTS else body
        told = steps(model, given, content_type, accept)
        told = told[0] if isinstance(told, tuple) else told
        return told.encode() if isinstance(told, str) else bytes(told)

    return answer


def _steps(module: Any) -> Callable[..., Any]:
    parts = ("input_fn", "predict_fn", "output_fn")
    if hasattr(module, "transform_fn"):
        if any(hasattr(module, part) for part in parts):
            raise ValueError("Cannot use transform_fn in conjunction with input_fn, predict_fn and output_fn")
        whole = function(module, "transform_fn")
        return lambda *given: call(whole, *given)
    read, predict, write = (function(module, part) for part in parts)

    def step(model: Any, body: Any, content_type: str, accept: str) -> Any:
        return call(write, call(predict, call(read, body, content_type), model), accept)

    return step


def function(module: Any, name: str) -> Callable[..., Any]:
    """Return a function of the module.

    Raises:
        LookupError: It has none; what a framework's container has in its place is not here.
    """
    if not hasattr(module, name):
        raise LookupError(f"{module.__name__}.py has no {name}")
    found: Callable[..., Any] = getattr(module, name)
    return found


def call(handler: Callable[..., Any], *given: Any) -> Any:
    """Return what the handler says; one that takes one argument more gets the context."""
    takes_context = len(inspect.signature(handler).parameters) == len(given) + 1
    return handler(*given, *([None] if takes_context else []))


def transform(path: Path, out: Path, asked: Mapping[str, Any], answer: Answer) -> None:
    """The file out holds the model's answers to the object, in its order."""
    with (gzip.open if asked["packed"] else open)(path, "rb") as source, open(out, "wb") as target:
        for body in requests(source, asked):  # type: ignore[arg-type]
            told = answer(body)
            target.write(told)
            if asked["line_ends"] and not told.endswith(b"\n"):
                target.write(b"\n")


def whole(made: Path, out: Path) -> None:
    """The file is at out, where all of it is from the first moment: what is there is carried out."""
    out.parent.mkdir(parents=True, exist_ok=True)
    made.replace(out)


def requests(source: IO[bytes], asked: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the bodies of the requests that an object becomes.

    Raises:
        BadInput: A record is larger than a request may be.
    """
    if not asked["lines"]:
        return iter([bounded(source.read(), asked)])
    records = (bounded(line.removesuffix(b"\n"), asked) for line in source)
    return records if asked["alone"] else together(records, asked["max_bytes"])


def bounded(record: bytes, asked: Mapping[str, Any]) -> bytes:
    """Return the record, which fits in a request."""
    if 0 < asked["max_bytes"] < len(record):
        raise BadInput(f"a record of {len(record)} bytes is more than MaxPayloadInMB: {asked['max_bytes']} bytes")
    return record


def together(records: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield as many records as fit in max_bytes, line by line; 0 is endless."""
    waiting: list[bytes] = []
    size = 0
    for record in records:
        if waiting and 0 < max_bytes < size + len(record):
            yield b"\n".join(waiting)
            waiting, size = [], 0
        waiting.append(record)
        size += len(record) + 1
    if waiting:
        yield b"\n".join(waiting)


if __name__ == "__main__":
    sys.exit(main(Path(os.environ["SAGEMAKER_BASE_DIR"])))
