"""Makes what MWAA reads, in dist/: the same bytes whenever the sources and uv.lock are the same.

plugins.zip             the operators, `pipelines` that they import, and constraints.txt: versions as in uv.lock
requirements-mwaa.txt   what the operators need in Airflow's own environment, and none of the ML libraries
pipelines.tar.gz        the project that the steps run in, and requirements.txt of the environment that they run in
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
"""Where MWAA unpacks plugins.zip."""
LIGHT = {
    *("apache-airflow", "apache-airflow-providers-amazon", "apache-airflow-providers-slack"),
    *("apache-airflow-providers-smtp", "apache-airflow-providers-standard", "attrs", "boto3", "jinja2"),
    *("psutil", "pydantic", "pydantic-settings", "pyyaml", "requests"),
}
"""Of the project's dependencies, those of the operators."""
ONLY_AIRFLOW = {
    "apache-airflow",
    "apache-airflow-providers-amazon",
    "apache-airflow-providers-slack",
    "apache-airflow-providers-smtp",
    "apache-airflow-providers-standard",
    "moto",
    "werkzeug",
}
"""Those that no step needs."""
# The plugin loader executes every file that this does not name.
IGNORED = "leeway/\npipelines/\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    """The three files are in dist/."""
    dist = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    dist.mkdir(parents=True, exist_ok=True)
    light, heavy = locked(prune=direct().keys() - LIGHT), locked(prune=ONLY_AIRFLOW)
    write(dist / "plugins.zip", zipped({**plugins(), "constraints.txt": "\n".join(light) + "\n"}))
    write(dist / "requirements-mwaa.txt", requirements(light).encode())
    write(dist / "pipelines.tar.gz", tarred({**project(), "requirements.txt": "\n".join(heavy) + "\n"}))
    made = "plugins.zip, requirements-mwaa.txt, pipelines.tar.gz"
    sys.stdout.write(f"{dist}: wrote {made}. docs/how-to/aws.md says how to use them.\n")
    return 0


def direct() -> dict[str, str]:
    """The project's own dependencies: name to name with extras, as amazon[aiobotocore]."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {_name(one): re.split("[=<>; ]", one)[0] for one in asked}


def locked(prune: Iterable[str]) -> list[str]:
    """NAME==VERSION of all that uv.lock installs without the packages in `prune` and what only they need."""
    options = ["--frozen", "--no-default-groups", "--no-emit-project", "--no-hashes", "--no-annotate", "--no-header"]
    pruned = [word for name in sorted(prune) for word in ("--prune", name)]
    told = subprocess.run([uv(), "export", *options, *pruned], cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        raise SystemExit(f"error: uv export: {told.stderr.strip().splitlines()[-1]}")
    return [line for line in told.stdout.splitlines() if line and not line.startswith(("#", " "))]


def uv() -> str:
    """The uv of the checkout, or the system's."""
    own = ROOT / ".leeway" / "uv" / "bin" / "uv"
    found = str(own) if own.exists() else shutil.which("uv")
    if not found:
        raise SystemExit("error: there is no uv: `make setup` installs it.")
    return found


def requirements(light: Iterable[str]) -> str:
    """What MWAA installs: the operators' own dependencies, all else of them as constraints.txt says."""
    versions = {_name(line): line.partition(" ;")[0].partition("==")[2] for line in light}
    wanted = [f"{whole}=={versions[name]}" for name, whole in sorted(direct().items()) if name in LIGHT]
    return "\n".join([f'--constraint "{CONSTRAINTS}"', *wanted]) + "\n"


def plugins() -> dict[str, bytes | str]:
    """Name in plugins.zip to content."""
    found: dict[str, bytes | str] = {".airflowignore": IGNORED}
    found["leeway_plugin.py"] = (ROOT / "plugins" / "leeway_plugin.py").read_bytes()
    return found | tree(ROOT / "plugins", "leeway") | tree(ROOT, "pipelines")


def project() -> dict[str, bytes | str]:
    """Name in pipelines.tar.gz to content: what a step finds in LEEWAY_PROJECT."""
    found: dict[str, bytes | str] = {"commit": commit() + "\n"}
    found |= {name: (ROOT / name).read_bytes() for name in ("dvc.yaml", "params.yaml", ".dvc/config", ".dvcignore")}
    return found | tree(ROOT, "pipelines") | tree(ROOT, "expectations")


def tree(base: Path, folder: str) -> dict[str, bytes | str]:
    """Each file below a folder, by its name below `base`; no bytecode."""
    paths = (path for path in (base / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(base)): path.read_bytes() for path in paths}


def commit() -> str:
    """The commit of the checkout, for LEEWAY_GIT_COMMIT, '-dirty' where files differ; empty where there is none."""
    asked = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    """A zip with nothing in it but names and contents."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, content)
    return made.getvalue()


def tarred(files: Mapping[str, bytes | str]) -> bytes:
    """A tar.gz with nothing in it but names and contents."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in sorted(files.items()):
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def write(path: Path, content: bytes) -> None:
    """`path` has the content, or is as it was."""
    making = path.with_name(f".{path.name}.{os.getpid()}")
    making.write_bytes(content)
    making.replace(path)


def _name(requirement: str) -> str:
    return re.split(r"[\[=<>; ]", requirement)[0].lower()


if __name__ == "__main__":
    sys.exit(main())
