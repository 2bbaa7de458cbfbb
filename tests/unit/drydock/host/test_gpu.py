"""Test how the utilization of GPUs is read, with a program in the place of nvidia-smi: this machine has no GPU."""

from pathlib import Path

import pytest

from drydock.host.gpu import GpuUsage, measure_gpus

# The form of the table is that of nvidia-smi 550; older ones have fewer columns.
TABLE = """
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command
# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name
    0        111     C     60     20      -      -      -      -   4000      0    python
    0        222     C     10      1      -      -      -      -   1000      0    python
    1        111     C     30     20      -      -      -      -   2000      0    python
    1        333     C      -      -      -      -      -      -      -      -    idle
"""
MEMORY = "0, 16000\n1, 8000\n"


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program `nvidia-smi` in the path, which prints the tables; return it."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\ncase $1 in pmon) cat <<'END'\n{TABLE}END\n;; *) cat <<'END'\n{MEMORY}END\n;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return program


@pytest.mark.usefixtures("nvidia_smi")
def test_use_is_summed_over_the_gpus_and_processes() -> None:
    assert measure_gpus([111, 999]) == GpuUsage(90.0, 25.0 + 25.0)
    assert measure_gpus([111, 222]) == GpuUsage(100.0, 25.0 + 6.25 + 25.0)


@pytest.mark.usefixtures("nvidia_smi")
def test_process_without_a_gpu_has_no_use_of_it() -> None:
    assert measure_gpus([999]) is None
    assert measure_gpus([]) is None


@pytest.mark.usefixtures("nvidia_smi")
def test_number_that_the_driver_does_not_report_is_not_known() -> None:
    assert measure_gpus([333]) == GpuUsage(None, None)


def test_without_a_driver_nothing_is_known(nvidia_smi: Path) -> None:
    nvidia_smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n")
    assert measure_gpus([111]) is None
    nvidia_smi.unlink()
    assert measure_gpus([111]) is None
