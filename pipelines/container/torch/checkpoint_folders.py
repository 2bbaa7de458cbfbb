"""Name, complete and verify the folders of sharded checkpoints. Needs no torch.

SageMaker copies the folder of the checkpoints of each host to S3, file by file and at any moment. So a checkpoint is a
folder of shards, and a marker that names each shard with its size and SHA-256:

    00000400-TRAINING-SAVE/              step, digest of the training's identity, and 8 random digits
        shard-00001-....safetensors      the tensors of the process of rank 0
        shard-00002-....safetensors      those of rank 1, perhaps written on another host
        complete.json                    the marker: a line of JSON, and the SHA-256 of this line

The first host writes the marker after all processes have written their shards. A folder in which the marker or a shard
is missing, truncated or changed is not a checkpoint. A name is never used twice, so that no host deletes or overwrites
in S3 what another host has just uploaded.

This module is part of the training job's bundle, so it imports the standard library and files of the bundle only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.system.files import sha256

MARKER_FILE = "complete.json"
CHECKPOINT_NAME = re.compile(r"(\d{8})-([0-9a-f]{16})-([0-9a-f]{8})")
"""Name of a checkpoint: step, digest of the training's identity, and the digits that no other save has."""
FORMAT = 1
"""Version of the marker's format."""


@dataclass(frozen=True)
class Marker:
    """The list of the parts of a complete checkpoint.

    Attributes:
        step: number of steps that the training has made.
        saved_at: time of the save, ISO 8601 in UTC.
        processes: number of processes that saved it.
        files: maps the name of each shard to its size in bytes and its SHA-256.
        tensors: maps the name of each tensor to its shape.
        values: maps the name of each saved value that is not a tensor, such as the learning rate, to the value (JSON).
        state: any JSON values of the script, such as the metrics so far.
    """

    step: int
    saved_at: str
    processes: int
    files: Mapping[str, tuple[int, str]]
    tensors: Mapping[str, list[int]]
    values: Mapping[str, Any]
    state: Mapping[str, Any]


def choose_name(step: int, training_digest: str) -> str:
    """Return a new name for the checkpoint after `step` steps.

    Args:
        step: number of steps.
        training_digest: digest of the training's identity, 16 hex digits.
    """
    return f"{step:08d}-{training_digest}-{secrets.token_hex(4)}"


def list_names(folder: Path, training_digest: str) -> list[str]:
    """List the names of the checkpoints of a training, those with the most steps first; they may be incomplete.

    Args:
        folder: folder of the checkpoints.
        training_digest: digest of the training's identity, 16 hex digits.
    """
    matches = [match for name in os.listdir(folder) if (match := CHECKPOINT_NAME.fullmatch(name))]
    return sorted((match[0] for match in matches if match[2] == training_digest), reverse=True)


def list_other_names(folder: Path, training_digest: str) -> list[str]:
    """List the names of the checkpoints of all other trainings, in the order of `list_names`."""
    matches = [match for name in os.listdir(folder) if (match := CHECKPOINT_NAME.fullmatch(name))]
    return sorted((match[0] for match in matches if match[2] != training_digest), reverse=True)


def describe_file(path: Path) -> tuple[int, str]:
    """Return the size of a file in bytes, and its SHA-256."""
    return path.stat().st_size, sha256(path)


def write_marker(folder: Path, marker: Marker, temporary: Path) -> None:
    """Complete a checkpoint: write the marker, which is complete or absent even after a power failure.

    Args:
        folder: folder of the checkpoint.
        marker: the content.
        temporary: path for the incomplete file, on the same file system.
    """
    line = json.dumps({"format": FORMAT, **asdict(marker)}).encode()
    with temporary.open("wb") as file:
        file.write(line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / MARKER_FILE)


def read_marker(folder: Path) -> Marker:
    """Return the marker of a checkpoint.

    Raises:
        ValueError: there is no marker, or it is damaged, or its format is that of another version. The text says which:
            it continues a sentence that begins with the name of the checkpoint.
    """
    try:
        line, digest = (folder / MARKER_FILE).read_bytes().split(b"\n")[:2]
    except OSError:
        raise ValueError(f"is incomplete: it has no {MARKER_FILE}") from None
    except ValueError:
        line, digest = b"", b""
    if not line or hashlib.sha256(line).hexdigest().encode() != digest:
        raise ValueError(f"is damaged: {MARKER_FILE} is truncated or corrupt")
    content = json.loads(line)
    if content.pop("format") != FORMAT:
        raise ValueError("has the format of another version of Leeway")
    files = {name: (size, file_digest) for name, (size, file_digest) in content.pop("files").items()}
    return Marker(files=files, **content)


def verify(folder: Path) -> Marker:
    """Return the marker of a complete checkpoint. All of its files are read.

    Raises:
        ValueError: a file is missing, or has another content than the marker says. The text says which, as in
            `read_marker`.
    """
    marker = read_marker(folder)
    for name, (size, digest) in marker.files.items():
        path = folder / name
        # A name with a separator would lead out of the folder.
        if Path(name).name != name or not path.is_file():
            raise ValueError(f"is incomplete: it lacks {name[:100]}")
        if path.stat().st_size != size or sha256(path) != digest:
            raise ValueError(f"is incomplete: {name} is truncated or corrupt")
    return marker
