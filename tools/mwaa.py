"""Build the files for MWAA, AWS's managed Airflow, in dist/. The same sources and uv.lock give byte-identical files.

plugins.zip             the operators, `pipelines`, and constraints.txt with the versions of uv.lock
requirements-mwaa.txt   the packages that the operators need in Airflow's environment, without the ML libraries
pipelines.tar.gz        the project for the steps, and requirements.txt of the environment that the steps run in
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = "/usr/local/airflow/plugins/constraints.txt"
"""The path of constraints.txt after MWAA has unpacked plugins.zip."""
# Airflow's plugin loader executes every file that .airflowignore does not exclude.
AIRFLOWIGNORE = "leeway/\npipelines/\n"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of each file in a zip archive: the earliest time of the format. It is constant, so that builds are equal."""


def main() -> int:
    """Write the three files to dist/, or to the folder that the first argument names."""
    dist = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    dist.mkdir(parents=True, exist_ok=True)
    operator_packages = export_locked_versions("airflow")
    step_packages = export_locked_versions("pipelines")
    plugin_files = {**list_plugin_files(), "constraints.txt": "\n".join(operator_packages) + "\n"}
    project_files = {**list_project_files(), "requirements.txt": "\n".join(step_packages) + "\n"}
    write_file(dist / "plugins.zip", build_zip(plugin_files))
    write_file(dist / "requirements-mwaa.txt", format_requirements(operator_packages).encode())
    write_file(dist / "pipelines.tar.gz", build_tar(project_files))
    names = "plugins.zip, requirements-mwaa.txt, pipelines.tar.gz"
    sys.stdout.write(f"{dist}: wrote {names}. docs/how-to/aws.md says how to use them.\n")
    return 0


def list_operator_dependencies() -> dict[str, str]:
    """Return the direct dependencies of the operators, with their extras (such as amazon[aiobotocore]), by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["airflow"]]
    return {_parse_name(item): re.split("[=<>; ]", item)[0] for item in requirements}


def export_locked_versions(*extras: str) -> list[str]:
    """Return a line NAME==VERSION for each package that Leeway needs with these extras, with uv.lock's version."""
    options = ["--frozen", "--no-default-groups", "--no-emit-project", "--no-hashes", "--no-annotate", "--no-header"]
    command = [find_uv(), "export", *options, *(f"--extra={extra}" for extra in extras)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"error: uv export: {result.stderr.strip().splitlines()[-1]}")
    return [line for line in result.stdout.splitlines() if line and not line.startswith(("#", " "))]


def find_uv() -> str:
    """Return the path of the checkout's uv, or of the system's."""
    uv = ROOT / ".leeway" / "uv" / "bin" / "uv"
    path = str(uv) if uv.exists() else shutil.which("uv")
    if not path:
        raise SystemExit("error: there is no uv: `make setup` installs it.")
    return path


def format_requirements(packages: Iterable[str]) -> str:
    """Return the text of requirements-mwaa.txt: the operators' direct dependencies, with their versions.

    constraints.txt has the versions of all other packages.

    Args:
        packages: a line NAME==VERSION for each package.
    """
    versions = {_parse_name(line): line.partition(" ;")[0].partition("==")[2] for line in packages}
    lines = [f"{requirement}=={versions[name]}" for name, requirement in sorted(list_operator_dependencies().items())]
    return "\n".join([f'--constraint "{CONSTRAINTS}"', *lines]) + "\n"


def list_plugin_files() -> dict[str, bytes | str]:
    """Return the content of each file of plugins.zip, by name."""
    files: dict[str, bytes | str] = {".airflowignore": AIRFLOWIGNORE}
    files["leeway_plugin.py"] = (ROOT / "plugins" / "leeway_plugin.py").read_bytes()
    return files | read_folder(ROOT / "plugins", "leeway") | read_folder(ROOT, "pipelines")


def list_project_files() -> dict[str, bytes | str]:
    """Return the content of each file of pipelines.tar.gz, by name. The steps run in this folder (LEEWAY_PROJECT)."""
    files: dict[str, bytes | str] = {"commit": describe_commit() + "\n"}
    files |= {name: (ROOT / name).read_bytes() for name in ("dvc.yaml", "params.yaml", ".dvc/config", ".dvcignore")}
    files |= {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(ROOT.glob("models/*/params.yaml"))}
    return files | read_folder(ROOT, "pipelines") | read_folder(ROOT, "expectations")


def read_folder(base: Path, folder: str) -> dict[str, bytes | str]:
    """Return the content of each file below a folder, by path relative to `base`. Bytecode is left out."""
    paths = (path for path in (base / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(base)): path.read_bytes() for path in paths}


def describe_commit() -> str:
    """Return the hash of the checkout's commit, with '-dirty' if files were changed; empty if there is no commit."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def build_zip(files: Mapping[str, bytes | str]) -> bytes:
    """Return a zip archive of the files, without times and owners, so that equal files give equal bytes."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _ZIP_TIME)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, content)
    return output.getvalue()


def build_tar(files: Mapping[str, bytes | str]) -> bytes:
    """Return a tar.gz archive of the files, without times and owners, so that equal files give equal bytes."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        for name, content in sorted(files.items()):
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(output.getvalue(), mtime=0)


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically. On an error, the file stays as it was."""
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
    temporary_path.write_bytes(content)
    temporary_path.replace(path)


def _parse_name(requirement: str) -> str:
    return re.split(r"[\[=<>; ]", requirement)[0].lower()


if __name__ == "__main__":
    sys.exit(main())
