"""Check that the package of a version is the one that was judged, before anything of it is loaded.

Loading a package runs the code in it. Everybody who can write to MLflow's artifacts can change the package. So each
reader compares the package's files with a digest that is stored elsewhere: in the events in the lake or, if there is
none, in a tag of the version.
"""

from __future__ import annotations

import stat
from pathlib import Path

from mlflow.entities.model_registry import ModelVersion

from pipelines.errors import DataError
from pipelines.registry.lifecycle.events import PACKAGE_DIGEST, Kind
from pipelines.registry.lifecycle.journal import Journal
from pipelines.system.files import sha256

PACKAGE_TAG = "leeway.package_digest"
"""Tag of a version: the digest of its package when it was registered."""
DOWNLOAD_NOTE = "registered_model_meta"
"""File that MLflow's client (3.17.2) adds to a package when it downloads a version. It is not part of the package."""


def compute_package_digest(package: Path) -> str:
    """Compute one SHA-256 of all files of a downloaded package; remove the file that the download added.

    Raises:
        DataError: the package has a link or another special file, whose content could change after the check. A retry
            cannot help.
    """
    (package / DOWNLOAD_NOTE).unlink(missing_ok=True)
    for path in package.rglob("*"):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DataError(f"{path.relative_to(package)} in a model's package is neither a file nor a folder.")
    return sha256(package)


def check_package(version: ModelVersion, package: Path, *, is_first_verdict: bool = False) -> str:
    """Compare a downloaded package with the digest that was recorded for its version; return the digest.

    Args:
        version: version of the package.
        package: folder of the downloaded package, in which nobody else can write.
        is_first_verdict: whether to accept a version without a recorded digest, because the gate judges it now.

    Raises:
        DataError: the files are not those that were judged or registered, or no digest was recorded. A retry cannot
            help.
    """
    name, digest = f"{version.name} version {version.version}", compute_package_digest(package)
    judged_digest = _find_judged_digest(version)
    recorded_digest = judged_digest or version.tags.get(PACKAGE_TAG, "")
    if not recorded_digest and not is_first_verdict:
        raise DataError(
            f"no digest of the files of {name} is recorded, so they cannot be checked, and nothing of it is loaded.",
            "Register versions with `evaluate`, or judge this one with `gate`.",
        )
    if recorded_digest and digest != recorded_digest:
        event = "judged" if judged_digest else "registered"
        raise DataError(
            f"the files of {name} are not those that were {event}: their digest is {digest[:12]}, not "
            f"{recorded_digest[:12]}. Nothing of them was loaded.",
            "Restore the files in MLflow, or train again. If it is champion, `python -m pipelines rollback`.",
        )
    return digest


def _find_judged_digest(version: ModelVersion) -> str:
    """Return the digest of the package in the last verdict on the version; empty if there is none."""
    digests = [
        str(event.evidence[PACKAGE_DIGEST])
        for event in Journal.open().read_state(version.name).events
        if event.kind is Kind.JUDGED and event.version == str(version.version) and event.evidence.get(PACKAGE_DIGEST)
    ]
    return digests[-1] if digests else ""
