"""Test the Makefile in a folder with few other files, with a fake uv."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with the Makefile and the files of the installation."""
    for name in ("Makefile", "uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in the folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LEEWAY_", "MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=clone, env=env, capture_output=True, text=True, check=False)


def write_uv(clone: Path, script: str) -> None:
    """Write a fake uv that runs a script."""
    version = next(
        line.split()[-1] for line in (clone / "Makefile").read_text().splitlines() if "UV_VERSION :=" in line
    )
    uv = clone / ".leeway" / "uv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(f"#!/bin/sh\n{script}\n")
    uv.chmod(0o755)
    (clone / ".leeway" / "uv" / f".{version}").touch()
    for name in ("uv.lock", "pyproject.toml"):
        os.utime(clone / name, (1, 1))


def test_help_is_the_default_and_lists_every_target(clone):
    result = make(clone)
    assert result.returncode == 0
    for target in ("setup", "demo", "up", "down", "check", "test", "bench", "clean"):
        assert f"make {target} " in result.stdout


def test_missing_python_is_reported_in_one_line(clone):
    result = make(clone, "setup", "PYTHON=")
    assert result.returncode == 2
    assert "error: no Python 3.11 or 3.12 found" in result.stderr
    assert not (clone / ".leeway").exists()


def test_secrets_are_written_without_the_python_of_the_project(clone):
    (clone / "docker").mkdir()
    shutil.copy(ROOT / "docker" / "init_env.py", clone / "docker")
    result = make(clone, "compose-init", "PYTHON=")
    assert (result.returncode, result.stderr) == (0, "")
    assert (clone / ".env").is_file()


def test_files_that_containers_read_are_readable_in_a_private_checkout(clone, monkeypatch):
    """Otherwise the first start of PostgreSQL fails half-way, and later starts do not complete its volume."""
    shutil.copytree(ROOT / "docker", clone / "docker")
    for path in (clone / "docker").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (clone / "bin").mkdir()
    (clone / "bin" / "docker").write_text("#!/bin/sh\nfind docker ! -perm -a=r\nstat -c %a docker/monitoring/grafana\n")
    (clone / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}")
    result = make(clone, "compose-up")
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line.isdigit() or line.startswith("docker/")] == [
        "755",
        "755",
    ]
    assert oct((clone / ".env").stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["backup"], ["backup"]),
        (["backup", "TO=/my backups/a.tar"], ["backup", "/my backups/a.tar"]),
        (["restore", "FROM=/my backups/a.tar", "FORCE=1"], ["restore", "/my backups/a.tar", "--force"]),
    ],
)
def test_backup_and_restore_pass_their_arguments(clone, arguments, expected):
    write_uv(
        clone,
        'mkdir -p .venv/bin; printf \'#!/bin/sh\\nprintf "<%%s>" "$@"\' >.venv/bin/python; chmod +x .venv/bin/python',
    )
    result = make(clone, *arguments)
    assert result.stdout.splitlines()[-1] == "".join(f"<{word}>" for word in ["-m", "stack", *expected])


def test_failed_installation_is_repeated(clone):
    write_uv(clone, "mkdir -p .venv; echo 'no route to the index' >&2; exit 1")
    result = make(clone, "setup")
    assert result.returncode == 2
    assert "no route to the index" in result.stderr
    assert make(clone, "setup").returncode == 2


def test_installation_is_frozen_compiled_and_done_once(clone):
    write_uv(clone, 'mkdir -p .venv; echo "$UV_PYTHON_DOWNLOADS $UV_PROJECT_ENVIRONMENT $*" >> calls')
    assert make(clone, "setup").returncode == 0
    assert make(clone, "setup").returncode == 0
    (call,) = (clone / "calls").read_text().splitlines()
    assert call.startswith("never .venv sync")
    assert {"--frozen", "--compile-bytecode"} <= set(call.split())


def test_installation_is_repeated_when_the_lock_changes(clone):
    write_uv(clone, "mkdir -p .venv; echo called >> calls")
    make(clone, "setup")
    later_time = (clone / ".venv" / ".leeway-stamp").stat().st_mtime + 1
    os.utime(clone / "uv.lock", (later_time, later_time))
    make(clone, "setup")
    assert (clone / "calls").read_text() == "called\ncalled\n"


def test_down_of_a_bare_clone_installs_nothing(clone):
    result = make(clone, "down")
    assert (result.returncode, result.stdout) == (0, "Nothing was running.\n")
    assert not (clone / ".venv").exists()


def test_clean_keeps_the_environment_and_the_sources(clone):
    subprocess.run(["git", "init", "-q"], cwd=clone, check=True)
    (clone / ".gitignore").write_text("data/*\n!data/README\n")
    for name in (
        "data/README",
        "data/features",
        ".leeway/airflow/airflow.db",
        ".leeway/uv/file",
        ".venv/file",
    ):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("")
    assert make(clone, "clean").returncode == 0
    names = {str(path.relative_to(clone)) for path in clone.rglob("file")} | {
        path.name for path in (clone / "data").iterdir()
    }
    assert names == {".leeway/uv/file", ".venv/file", "README"}
    assert [path.name for path in (clone / ".leeway").iterdir()] == ["uv"]


@pytest.mark.parametrize("exit_code", [0, 1])
def test_ci_runs_check_and_test_and_has_their_exit_code(clone, exit_code):
    (clone / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci")
    (clone / "Makefile").write_text(f"check:\n\t@echo checked\n\t@exit {exit_code}\ntest:\n\t@echo tested\n")
    # Without this, a make that runs this test would tell the inner make that it is nested, and that would be printed.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    result = subprocess.run([clone / ".ci" / "run"], env=env, capture_output=True, text=True, check=False)
    assert (result.returncode == 0) == (exit_code == 0)
    assert result.stdout == ("checked\ntested\n" if exit_code == 0 else "checked\n")
