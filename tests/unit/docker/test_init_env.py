"""Test `make compose-init`: it writes secrets to a file that only its owner can read."""

import stat
import subprocess
import sys
from base64 import urlsafe_b64decode
from pathlib import Path

from tests.tools import compose

SCRIPT = compose.ROOT / "docker" / "init_env.py"


def run(path: Path) -> "subprocess.CompletedProcess[str]":
    """Run init_env.py for a file."""
    return subprocess.run([sys.executable, "-I", str(SCRIPT), str(path)], capture_output=True, text=True)


def test_each_file_has_its_own_secrets_and_only_its_owner_reads_it(tmp_path):
    result = run(tmp_path / "a")
    assert result.returncode == 0
    run(tmp_path / "b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    first, second = compose.read_env(tmp_path / "a"), compose.read_env(tmp_path / "b")
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] == second[name]} == {"COMPOSE_PROFILES"}
    secrets = [first[name] for name in first if name != "COMPOSE_PROFILES"]
    assert len(set(secrets)) == len(secrets) and min(map(len, secrets)) >= 16
    assert not any(value in result.stdout + result.stderr for value in secrets)
    assert len(urlsafe_b64decode(first["AIRFLOW_FERNET_KEY"])) == 32


def test_existing_lines_stay_and_missing_variables_are_added(tmp_path):
    path = tmp_path / ".env"
    path.write_text("# mine\nREDIS_PASSWORD=as it was\nDOCS_PORT=9000")
    path.chmod(0o644)
    assert run(path).returncode == 0
    assert path.read_text().startswith("# mine\nREDIS_PASSWORD=as it was\nDOCS_PORT=9000\nCOMPOSE_PROFILES=celery\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    assert run(path).stdout == f"{path} is complete.\n"
    assert path.read_bytes() == content


def test_unwritable_folder_is_reported_in_one_line(tmp_path):
    result = run(tmp_path / "none" / ".env")
    assert result.returncode == 1
    assert result.stderr == f"error: cannot read or write {tmp_path / 'none' / '.env'}: No such file or directory.\n"


def test_empty_secret_is_filled_and_exported_secret_stays(tmp_path):
    path = tmp_path / ".env"
    path.write_bytes(
        b'REDIS_PASSWORD=\nMLFLOW_DB_PASSWORD=""\nexport GRAFANA_PASSWORD=mine\nexport COMPOSE_PROFILES=\n# caf\xe9\n'
    )
    assert run(path).returncode == 0
    lines = path.read_bytes().splitlines()
    assert lines[4] == b"# caf\xe9"
    assert not [line for line in lines if line.startswith((b"GRAFANA_PASSWORD", b"COMPOSE_PROFILES=c"))]
    for name in (b"REDIS_PASSWORD=", b"MLFLOW_DB_PASSWORD="):
        assert len([line for line in lines if line.startswith(name)][-1]) > len(name) + 16  # the last line counts
    content = path.read_bytes()
    assert run(path).stdout == f"{path} is complete.\n"
    assert path.read_bytes() == content


def test_symbolic_link_stays_a_link(tmp_path):
    (tmp_path / ".env").symlink_to(tmp_path / "target")
    assert run(tmp_path / ".env").returncode == 0
    assert (tmp_path / ".env").is_symlink()
    assert "REDIS_PASSWORD" in compose.read_env(tmp_path / "target")
