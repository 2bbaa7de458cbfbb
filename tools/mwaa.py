"""Build the files that MWAA reads, in dist/. The files are byte-identical for the same sources and uv.lock.

plugins.zip             the operators, `pipelines` that they import, and constraints.txt with the versions of uv.lock
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
"""The path of the file after MWAA has unpacked plugins.zip."""
LIGHT = {
    *("apache-airflow", "apache-airflow-providers-amazon", "apache-airflow-providers-slack"),
    *("apache-airflow-providers-smtp", "apache-airflow-providers-standard", "attrs", "boto3", "jinja2"),
    *("psutil", "pydantic", "pydantic-settings", "pyyaml", "requests"),
}
"""Those of the project's dependencies that the operators need."""
ONLY_AIRFLOW = {
    "apache-airflow",
    "apache-airflow-providers-amazon",
    "apache-airflow-providers-slack",
    "apache-airflow-providers-smtp",
    "apache-airflow-providers-standard",
    "moto",
    "werkzeug",
}
"""Dependencies that no step needs."""
# The plugin loader of Airflow executes every file that .airflowignore does not name.
IGNORED = "leeway/\npipelines/\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    """Write the three files to dist/, or to the folder that the first argument names."""
    dist = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    dist.mkdir(parents=True, exist_ok=True)
    light = export_locked(prune=list_dependencies().keys() - LIGHT)
    heavy = export_locked(prune=ONLY_AIRFLOW)
    write_file(dist / "plugins.zip", build_zip({**list_plugin_files(), "constraints.txt": "\n".join(light) + "\n"}))
    write_file(dist / "requirements-mwaa.txt", format_requirements(light).encode())
    write_file(
        dist / "pipelines.tar.gz", build_tar({**list_project_files(), "requirements.txt": "\n".join(heavy) + "\n"})
    )
    names = "plugins.zip, requirements-mwaa.txt, pipelines.tar.gz"
    sys.stdout.write(f"{dist}: wrote {names}. docs/how-to/aws.md says how to use them.\n")
    return 0


def list_dependencies() -> dict[str, str]:
    """Return the project's direct dependencies: name to name with extras, such as amazon[aiobotocore]."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {_parse_name(item): re.split("[=<>; ]", item)[0] for item in requirements}


def export_locked(prune: Iterable[str]) -> list[str]:
    """Return NAME==VERSION of the packages in uv.lock, without those in `prune` and those that only these need."""
    options = ["--frozen", "--no-default-groups", "--no-emit-project", "--no-hashes", "--no-annotate", "--no-header"]
    pruned = [word for name in sorted(prune) for word in ("--prune", name)]
    command = [find_uv(), "export", *options, *pruned]
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


def format_requirements(light: Iterable[str]) -> str:
    """Return the requirements file for MWAA: the operators' direct dependencies. constraints.txt pins the others."""
    versions = {_parse_name(line): line.partition(" ;")[0].partition("==")[2] for line in light}
    pinned = [f"{full}=={versions[name]}" for name, full in sorted(list_dependencies().items()) if name in LIGHT]
    return "\n".join([f'--constraint "{CONSTRAINTS}"', *pinned]) + "\n"


def list_plugin_files() -> dict[str, bytes | str]:
    """Return the files of plugins.zip: name to content."""
    files: dict[str, bytes | str] = {".airflowignore": IGNORED}
    files["leeway_plugin.py"] = (ROOT / "plugins" / "leeway_plugin.py").read_bytes()
    return files | read_folder(ROOT / "plugins", "leeway") | read_folder(ROOT, "pipelines")


def list_project_files() -> dict[str, bytes | str]:
    """Return the files of pipelines.tar.gz, name to content: the folder that LEEWAY_PROJECT names for the steps."""
    files: dict[str, bytes | str] = {"commit": describe_commit() + "\n"}
    files |= {name: (ROOT / name).read_bytes() for name in ("dvc.yaml", "params.yaml", ".dvc/config", ".dvcignore")}
    return files | read_folder(ROOT, "pipelines") | read_folder(ROOT, "expectations")


def read_folder(base: Path, folder: str) -> dict[str, bytes | str]:
    """Return each file in a folder and its subfolders: path relative to `base`, to content. Bytecode is left out."""
    paths = (path for path in (base / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(base)): path.read_bytes() for path in paths}


def describe_commit() -> str:
    """Return the commit of the checkout, with '-dirty' where files differ from it; empty where there is none."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def build_zip(files: Mapping[str, bytes | str]) -> bytes:
    """Return a zip archive of the files, without times and owners, so that equal files give equal bytes."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
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
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _parse_name(requirement: str) -> str:
    return re.split(r"[\[=<>; ]", requirement)[0].lower()


if __name__ == "__main__":
    sys.exit(main())
