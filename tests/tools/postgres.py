"""Start a PostgreSQL of the machine's package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

PASSWORD = "p@ss/w:rd"
"""A password with characters that a URL must quote."""


def find_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None where it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    program = shutil.which("initdb")
    return folders[-1] if folders else Path(program).parent if program else None


@contextmanager
def run_postgres(port: int) -> Iterator[str]:
    """Start an empty PostgreSQL on a port of 127.0.0.1; yield the address of its database, with the password.

    The test is skipped where the machine has no PostgreSQL.
    """
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # Other users cannot enter tmp_path, and PostgreSQL refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="leeway-pg-", dir="/tmp"))
    user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    if user:
        shutil.chown(folder, "nobody", "nogroup")
    (folder / "password").write_text(f"{PASSWORD}\n")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", f"{folder}/data", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)

    try:
        access = ("-U", "leeway", "-A", "scram-sha-256", "--pwfile", f"{folder}/password")
        run("initdb", *access, "--no-sync", "--locale=C.UTF-8")
        run("pg_ctl", "-o", options, "-w", "-l", f"{folder}/log", "start")
        try:
            yield f"postgresql+psycopg://leeway:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "fast", "stop")
    finally:
        shutil.rmtree(folder)
