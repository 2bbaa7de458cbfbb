"""Check data files: they exist, and they have the size and the digest with which they were committed.

A Parquet file without a known digest is decoded. Its number of rows and the sizes of its columns are compared with its
manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat

from pipelines.lake import storage
from pipelines.lake.check.findings import Finding, Problem
from pipelines.lake.check.table_files import RowFile, TableFiles, describe_read_error
from pipelines.lake.digest_files import read_digest_in_name


def check_row_files(files: TableFiles, *, reads_content: bool) -> Iterator[Finding]:
    """Yield a finding for each file that is lost or damaged.

    Args:
        files: the files of a table.
        reads_content: whether the content of the files is read. If not, only presence and size are checked. If a file
            of a snapshot is missing, cut or unreadable, the content of that snapshot's other files is not read.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    for digest, group in files.group_by_snapshot():
        problems = {file.location: _check_size(files.table.io, file.data_file) for file in group}
        if reads_content and not any(problems.values()):
            problems = _check_content(files.table.io, group, digest)
        for file in group:
            if problem := problems[file.location]:
                yield _make_finding(files, file, group, digest, *problem)


def find_problem(io: FileIO, data_file: DataFile, location: str = "") -> tuple[Problem, str] | None:
    """Decode a file and compare it with its manifest; return the problem, or None if there is none.

    Args:
        io: reads the file.
        data_file: description of the file in the manifest.
        location: location of the file; empty: the location in the manifest.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    try:
        with io.new_input(location or data_file.file_path).open() as source:
            return _compare_with_manifest(pq.ParquetFile(source), data_file)
    except Exception as error:
        return describe_read_error(error)


def _check_size(io: FileIO, data_file: DataFile) -> tuple[Problem, str] | None:
    try:
        size = storage.find_size(io, data_file.file_path)
    except OSError as error:
        return describe_read_error(error)
    expected_size = data_file.file_size_in_bytes
    if size is None:
        return "missing", "does not exist"
    return ("cut", f"has {size} bytes instead of {expected_size}") if size != expected_size else None


def _check_content(io: FileIO, group: Sequence[RowFile], digest: str) -> dict[str, tuple[Problem, str] | None]:
    """Check the content of the files that a snapshot wrote together.

    Args:
        io: reads the files.
        group: the files, in the order of their rows.
        digest: SHA-256 over the files; empty if it is not known.

    Returns:
        Maps the location of each file to its problem, or to None if it has none.
    """
    problems: dict[str, tuple[Problem, str] | None] = {}
    group_digest = hashlib.sha256()
    for file in group:
        try:
            file_digest = hashlib.sha256()
            for chunk in storage.iterate_chunks(io, file.location):
                file_digest.update(chunk)
                group_digest.update(chunk)
        except OSError as error:
            problems[file.location] = describe_read_error(error)
            continue
        expected_digest = read_digest_in_name(file.location)
        is_changed = bool(expected_digest) and expected_digest != file_digest.hexdigest()
        problems[file.location] = ("changed", "has other bytes than were committed") if is_changed else None
        if not expected_digest and not digest and file.data_file.file_format == FileFormat.PARQUET:
            problems[file.location] = find_problem(io, file.data_file)
    if digest and not any(problems.values()) and group_digest.hexdigest() != digest:
        decode_problems = {file.location: find_problem(io, file.data_file) for file in group}
        shared_problem: tuple[Problem, str] = (
            "changed",
            "has other bytes than were committed, or another file of its snapshot has",
        )
        # If all files can be decoded, it is not known which one was changed.
        return decode_problems if any(decode_problems.values()) else dict.fromkeys(problems, shared_problem)
    return problems


def _compare_with_manifest(file: pq.ParquetFile, data_file: DataFile) -> tuple[Problem, str] | None:
    rows = sum(batch.num_rows for batch in file.iter_batches())
    if rows != data_file.record_count:
        return "changed", f"has {rows} rows instead of {data_file.record_count}"
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    sizes = [
        sum(group.column(index).total_compressed_size for group in groups) for index in range(file.metadata.num_columns)
    ]
    expected_sizes = list((data_file.column_sizes or {}).values())
    if len(expected_sizes) == len(sizes) and sorted(expected_sizes) != sorted(sizes):
        return "changed", "has columns of other sizes than its manifest says"
    return None


def _make_finding(
    files: TableFiles, file: RowFile, group: Sequence[RowFile], digest: str, problem: Problem, detail: str
) -> Finding:
    own_digest = read_digest_in_name(file.location)
    return Finding(
        "rows",
        problem,
        file.location,
        detail,
        files.name,
        file.partition,
        int(file.data_file.record_count),
        is_current=file.is_current,
        snapshot_id=file.snapshot_id,
        digest=own_digest or digest,
        group=(file.location,) if own_digest or not digest else tuple(member.location for member in group),
    )
