"""The Makefile's own promises, in a bare copy of it, with a stand-in for uv."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LEEWAY_", "MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=clone, env=env, capture_output=True, text=True, check=False)


def put_uv(clone: Path, script: str) -> None:
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
    answer = make(clone)
    assert answer.returncode == 0
    for target in ("setup", "demo", "up", "down", "check", "test", "bench", "clean"):
        assert f"make {target} " in answer.stdout


def test_no_python_is_one_clear_line(clone):
    answer = make(clone, "setup", "PYTHON=")
    assert answer.returncode == 2
    assert "error: no Python 3.11 or 3.12 found" in answer.stderr
    assert not (clone / ".leeway").exists()


def test_secrets_need_no_python_of_ours(clone):
    (clone / "docker").mkdir()
    shutil.copy(ROOT / "docker" / "init_env.py", clone / "docker")
    answer = make(clone, "compose-init", "PYTHON=")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (clone / ".env").is_file()


def test_what_containers_read_of_a_private_checkout_is_readable(clone, monkeypatch):
    """Else PostgreSQL's first start fails half-way, and its volume is never made ready again."""
    shutil.copytree(ROOT / "docker", clone / "docker")
    for path in (clone / "docker").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (clone / "bin").mkdir()
    (clone / "bin" / "docker").write_text("#!/bin/sh\nfind docker ! -perm -a=r\nstat -c %a docker/monitoring/grafana\n")
    (clone / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}")
    answer = make(clone, "compose-up")
    assert answer.returncode == 0, answer.stderr
    assert [one for one in answer.stdout.splitlines() if one.isdigit() or one.startswith("docker/")] == ["755", "755"]
    assert oct((clone / ".env").stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["backup"], ["backup"]),
        (["backup", "TO=/my backups/a.tar"], ["backup", "/my backups/a.tar"]),
        (["restore", "FROM=/my backups/a.tar", "FORCE=1"], ["restore", "/my backups/a.tar", "--force"]),
    ],
)
def test_backups_have_the_names_that_they_are_given(clone, arguments, given):
    put_uv(
        clone,
        'mkdir -p .venv/bin; printf \'#!/bin/sh\\nprintf "<%%s>" "$@"\' >.venv/bin/python; chmod +x .venv/bin/python',
    )
    answer = make(clone, *arguments)
    assert answer.stdout.splitlines()[-1] == "".join(f"<{one}>" for one in ["-m", "stack", *given])


def test_install_that_failed_is_done_again(clone):
    put_uv(clone, "mkdir -p .venv; echo 'no route to the index' >&2; exit 1")
    answer = make(clone, "setup")
    assert answer.returncode == 2
    assert "no route to the index" in answer.stderr
    assert make(clone, "setup").returncode == 2


def test_install_is_frozen_compiled_and_done_once(clone):
    put_uv(clone, 'mkdir -p .venv; echo "$UV_PYTHON_DOWNLOADS $UV_PROJECT_ENVIRONMENT $*" >> calls')
    assert make(clone, "setup").returncode == 0
    assert make(clone, "setup").returncode == 0
    (call,) = (clone / "calls").read_text().splitlines()
    assert call.startswith("never .venv sync")
    assert {"--frozen", "--compile-bytecode"} <= set(call.split())


def test_install_is_done_again_when_the_lock_changes(clone):
    put_uv(clone, "mkdir -p .venv; echo called >> calls")
    make(clone, "setup")
    later = (clone / ".venv" / ".leeway-stamp").stat().st_mtime + 1
    os.utime(clone / "uv.lock", (later, later))
    make(clone, "setup")
    assert (clone / "calls").read_text() == "called\ncalled\n"


def test_down_of_a_bare_clone_installs_nothing(clone):
    answer = make(clone, "down")
    assert (answer.returncode, answer.stdout) == (0, "Nothing was running.\n")
    assert not (clone / ".venv").exists()


def test_clean_keeps_the_environment_and_the_sources(clone):
    subprocess.run(["git", "init", "-q"], cwd=clone, check=True)
    (clone / ".gitignore").write_text("data/*\n!data/README\n")
    for name in (
        "data/README",
        "data/features",
        ".leeway/airflow/airflow.db",
        ".leeway/uv/kept",
        ".venv/kept",
    ):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("")
    assert make(clone, "clean").returncode == 0
    left = {str(path.relative_to(clone)) for path in clone.rglob("kept")} | {p.name for p in (clone / "data").iterdir()}
    assert left == {".leeway/uv/kept", ".venv/kept", "README"}
    assert [path.name for path in (clone / ".leeway").iterdir()] == ["uv"]


@pytest.mark.parametrize("outcome", [0, 1])
def test_ci_runs_check_and_test_and_ends_as_they_do(clone, outcome):
    (clone / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci")
    (clone / "Makefile").write_text(f"check:\n\t@echo checked\n\t@exit {outcome}\ntest:\n\t@echo tested\n")
    # Else make, when it runs this test, tells its makes that they are nested, and they say so.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    answer = subprocess.run([clone / ".ci" / "run"], env=env, capture_output=True, text=True, check=False)
    assert (answer.returncode == 0) == (outcome == 0)
    assert answer.stdout == ("checked\ntested\n" if outcome == 0 else "checked\n")
