"""Start a PostgreSQL of the machine's package, for one test module."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def run_postgres(port: int) -> Iterator[str]:
    """Start an empty PostgreSQL on a port of 127.0.0.1; yield the address of its database, without a password.

    The test is skipped where the machine has no PostgreSQL.
    """
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="leeway-pg-", dir="/tmp"))
    # PostgreSQL refuses to run as root.
    user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    if user:
        shutil.chown(folder, "nobody", "nogroup")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"

    def run(program: str, *arguments: str) -> None:
        command = [str(programs[-1] / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust")
        run("pg_ctl", "-D", f"{folder}/data", "-o", options, "-w", "-l", f"{folder}/log", "start")
        try:
            yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
