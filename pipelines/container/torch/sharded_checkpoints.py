"""Save and restore checkpoints of several processes, by torch.distributed.checkpoint (DCP).

Each process writes its own shard, as a safetensors file. Nothing that is read from a checkpoint is a pickle. A
checkpoint can be loaded by another number of processes or hosts: DCP reads the parts that each process needs.
`checkpoint_folders` describes the files, and what happens if a host dies while they are written or copied.

This module is part of the training job's bundle, so it imports torch, the standard library and files of the bundle.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import struct
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter

from pipelines.container.checkpoints import SaveTimer, choose_temporary_folder, compute_digest
from pipelines.container.torch.checkpoint_folders import (
    MARKER_FILE,
    Marker,
    choose_name,
    describe_file,
    list_names,
    list_other_names,
    read_marker,
    verify,
    write_marker,
)
from pipelines.container.torch.processes import Processes, describe_error
from pipelines.errors import DataError


@dataclass(frozen=True)
class ShardedCheckpoint:
    """A complete checkpoint.

    Attributes:
        name: name of its folder.
        marker: what it consists of, with `step`, `saved_at` and `state`.
    """

    name: str
    marker: Marker


class ShardedCheckpoints:
    """The last few checkpoints of one training, in a folder that SageMaker copies to S3.

    All functions but `is_due` wait for all processes, so each process must call them in the same order. Folders of
    other trainings and other files are neither restored nor removed.

    Args:
        folder: folder of the checkpoints; created if it does not exist. Each host has its own folder.
        identity: everything that determines the training (hyperparameters, digests of the data), except the number of
            hosts and processes, as JSON values. Only a checkpoint of a training with equal values is restored.
        processes: the processes of the training.
        max_checkpoints: number of checkpoints to keep, at least 1. What is deleted here is deleted in S3, too, perhaps
            before a slower host has copied its shard of the next checkpoint. So keep at least 2.
        every_s: longest work between two checkpoints, seconds; 0 for a checkpoint after each step.

    Raises:
        ValueError: `max_checkpoints` or `every_s` is out of range.
        DataError: a process has another identity than the first one. A retry cannot help.
        OSError: the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        processes: Processes,
        max_checkpoints: int = 2,
        every_s: float = 30.0,
    ) -> None:
        if max_checkpoints < 1 or not every_s >= 0:
            values = f"{max_checkpoints} and {every_s}"
            raise ValueError(f"max_checkpoints is at least 1 and every_s at least 0, not {values}")
        self.folder, self.max_checkpoints, self.processes = folder.absolute(), max_checkpoints, processes
        self._training_digest = compute_digest(identity)
        processes.require_equal(self._training_digest)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._temporary = choose_temporary_folder(self.folder) / f".{self.folder.name}.making"
        if processes.is_first_on_host:  # the folder may have files of a process that was killed
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._names_to_keep: list[str] = []
        self._timer = SaveTimer(every_s)
        processes.wait()

    def is_due(self) -> bool:
        """Return whether this process would save now. Call it after every step, and let the processes agree.

        Example:
            exit_code, is_due = processes.reduce_max(stop.exit_code, checkpoints.is_due())
        """
        return self._timer.is_due()

    def save(self, step: int, values: Mapping[str, Any], state: Mapping[str, Any]) -> str:
        """Save the state after `step` steps, and remove all but the last `max_checkpoints` of this training.

        Args:
            step: number of steps.
            values: name to tensor, or to a value that can be written as JSON; as `collect_state` returns them.
            state: any JSON values of the script. Those of the first process are saved.

        Returns:
            The name of the checkpoint.

        Raises:
            OSError: a file cannot be written; for example, the disk is full. Older checkpoints stay as they are.
            RuntimeError: a process failed for another reason. Older checkpoints stay as they are.
        """
        name = self.processes.share_bytes(choose_name(step, self._training_digest).encode()).decode()
        folder = self._temporary / name
        tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
        files = self._write_shards(folder, tensors)
        if self.processes.is_first_on_host:
            folder.mkdir(parents=True, exist_ok=True)  # it is missing if no process of this host had a tensor to write
            os.replace(folder, self.folder / name)
            _sync_folder(self.folder)
        self.processes.wait()  # until all shards are in place: the marker comes after them
        if self.processes.is_first:
            marker = Marker(
                step=step,
                saved_at=dt.datetime.now(dt.UTC).isoformat(timespec="microseconds"),
                processes=self.processes.count,
                files=files,
                tensors={key: list(value.shape) for key, value in tensors.items()},
                values={key: value for key, value in values.items() if key not in tensors},
                state=state,
            )
            write_marker(self.folder / name, marker, self._temporary / MARKER_FILE)
        self.processes.wait()  # until this checkpoint is complete: only then older ones are removed
        self._names_to_keep = [*self._names_to_keep, name][-self.max_checkpoints :]
        self._remove_other_checkpoints()
        self._timer.restart()
        return name

    def restore(self) -> ShardedCheckpoint | None:
        """Return the last checkpoint (by steps) of this training that is complete on all hosts; None if there is none.

        The first process prints the name of the checkpoint. `load` reads its tensors.
        """
        checkpoint = self._find_last_checkpoint()
        if self.processes.is_first:
            # The operator reads this line in the job's log, to compute how much work was lost.
            text = f"name={checkpoint.name} saved_at={checkpoint.marker.saved_at}" if checkpoint else "none"
            sys.stdout.write(f"checkpoint restored: {text}\n")
            sys.stdout.flush()
        self._names_to_keep = [checkpoint.name] if checkpoint else []
        return checkpoint

    def load(self, checkpoint: ShardedCheckpoint, values: Mapping[str, Any]) -> dict[str, Any]:
        """Read the tensors of a checkpoint into the tensors of `values`. Return all values of the checkpoint by name.

        Raises:
            DataError: the checkpoint has other tensors, so it is that of another model. A retry cannot help.
            OSError, RuntimeError: a shard cannot be read.
        """
        tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
        _compare_tensors(checkpoint, {key: list(value.shape) for key, value in tensors.items()})
        with warnings.catch_warnings():
            # Each process reads what it needs, without the others: DCP warns that it is alone.
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            reader = HuggingFaceStorageReader(str(self.folder / checkpoint.name))
            try:
                dcp.load(tensors, storage_reader=reader, no_dist=True)
            except CheckpointException as error:
                raise _unwrap(error) from None
        self.processes.wait()
        return {**checkpoint.marker.values, **tensors}

    def _write_shards(self, folder: Path, tensors: dict[str, Any]) -> dict[str, tuple[int, str]]:
        """Write this process's shard to a folder; return size and digest of the shards of all processes, by name."""
        if tensors:
            writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
            try:
                dcp.save(tensors, storage_writer=writer)
            except CheckpointException as error:
                raise _unwrap(error) from None
        # Each process writes at most one file, whose name begins with its rank; HuggingFaceStorageWriter counts from 1.
        names = {rank: f"shard-{rank + 1:05d}-model-00001-of-00001.safetensors" for rank in range(self.processes.count)}
        path = folder / names[self.processes.rank]
        size, digest = describe_file(path) if path.exists() else (-1, "0" * 64)
        # `gather` sends 64-bit integers: the size, and the digest in four parts.
        rows = self.processes.gather(size, *struct.unpack(">4q", bytes.fromhex(digest)))
        return {
            names[rank]: (row[0], struct.pack(">4q", *row[1:]).hex()) for rank, row in enumerate(rows) if row[0] >= 0
        }

    def _find_last_checkpoint(self) -> ShardedCheckpoint | None:
        """Return the last checkpoint (by steps) that is complete on all hosts; None if there is none.

        The first host proposes its complete checkpoints one by one, and the other hosts verify them.
        """
        proposals = self._list_complete_checkpoints() if self.processes.is_first else iter(())
        while True:
            proposal = next(proposals, None)
            name = self.processes.share_bytes(proposal.name.encode() if proposal else b"").decode()
            if not name:
                return None
            marker = proposal.marker if proposal else self._verify_on_host(name)
            if self.processes.reduce_min(int(marker is not None)):
                return ShardedCheckpoint(name, marker or read_marker(self.folder / name))
            if self.processes.is_first:
                _write_line(f"checkpoint {name} is not complete on all hosts; trying the one before")

    def _list_complete_checkpoints(self) -> Iterator[ShardedCheckpoint]:
        """Yield the complete checkpoints of this training, the one with the most steps first.

        Write to stderr why other checkpoints are ignored.
        """
        for name in list_other_names(self.folder, self._training_digest):
            _write_line(f"checkpoint {name} belongs to other hyperparameters or other data; it is ignored")
        for name in list_names(self.folder, self._training_digest):
            try:
                yield ShardedCheckpoint(name, verify(self.folder / name))
            except (OSError, ValueError) as error:
                _write_line(f"checkpoint {name} {error}; trying the one before")

    def _verify_on_host(self, name: str) -> Marker | None:
        """Return the marker of a checkpoint; None if it is not complete on this host.

        The files are read once on each host.
        """
        try:
            folder = self.folder / name
            return verify(folder) if self.processes.is_first_on_host else read_marker(folder)
        except (OSError, ValueError) as error:
            _write_line(f"checkpoint {name} {error}, on this host")
            return None

    def _remove_other_checkpoints(self) -> None:
        """Remove the checkpoints of this training that are not kept or not complete, and the temporary folder."""
        if not self.processes.is_first_on_host:
            return
        for name in list_names(self.folder, self._training_digest):
            if name not in self._names_to_keep:
                (self.folder / name / MARKER_FILE).unlink(missing_ok=True)
                shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.rmtree(self._temporary, ignore_errors=True)


def _compare_tensors(checkpoint: ShardedCheckpoint, own_shapes: Mapping[str, list[int]]) -> None:
    """Check that a checkpoint has the names and shapes of this model's tensors."""
    saved_shapes = checkpoint.marker.tensors
    if own_shapes == saved_shapes:
        return
    name = next(key for key in (*own_shapes, *saved_shapes) if own_shapes.get(key) != saved_shapes.get(key))
    saved_shape, own_shape = (
        f"shape {shapes[name]}" if name in shapes else "none" for shapes in (saved_shapes, own_shapes)
    )
    raise DataError(
        f"the checkpoint {checkpoint.name} is that of another model: {name} has {saved_shape} there, and {own_shape} "
        "here.",
        "Use the model with which it was saved, or another checkpoint folder.",
    )


def _unwrap(error: CheckpointException) -> Exception:
    """Return the first error of a process. DCP's own error is not an `Exception`, and has a traceback per process."""
    rank, (cause, _) = next(iter(error.failures.items()))
    if isinstance(cause, OSError):
        return cause
    return RuntimeError(f"the process of rank {rank} failed: {type(cause).__name__}: {describe_error(cause)}")


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder last over a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
