"""Where the image of a container comes from: the engine's own, or one that is built from a Dockerfile."""

import collections
import hashlib
import json
import logging
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from drydock.errors import JobFailed
from drydock.execution.engine import docker

log = logging.getLogger(__name__)

REPOSITORY = "drydock-training"
BUILT_WITHIN_S = 1800.0


class Images:
    """Names the image to run. Safe to be called from any thread.

    Args:
        dockerfile: What to build, with its folder, for every image that the engine does not have; None for nothing.
        build_arguments: The ARGs of the Dockerfile.
    """

    def __init__(self, dockerfile: Path | None = None, build_arguments: Mapping[str, str] | None = None) -> None:
        self._dockerfile, self._arguments = dockerfile, dict(build_arguments or {})
        self._lock = threading.Lock()

    def find(self, image: str) -> str:
        """Return an image that the engine has: the one that was asked for, else the Dockerfile's, built if need be.

        Raises:
            JobFailed: There is neither, or the build failed.
        """
        if image and _has(image):
            return image
        if self._dockerfile is None:
            raise JobFailed(
                f"ClientError: the container engine has no image {image or 'for an algorithm that is only named'}. "
                "Pull or build it, or give drydock a Dockerfile to build for such jobs."
            )
        with self._lock:  # jobs that need it at the same time wait for one build
            tag = f"{REPOSITORY}:{self._digest(self._dockerfile)}"
            if not _has(tag):
                self._build(self._dockerfile, tag)
            return tag

    def _digest(self, dockerfile: Path) -> str:
        digest = hashlib.sha256(json.dumps([dockerfile.name, self._arguments], sort_keys=True).encode())
        try:
            digest.update(dockerfile.read_bytes())
            for path in sorted(path for path in dockerfile.parent.rglob("*") if path.is_file()):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{path.relative_to(dockerfile.parent)}\0{content}\n".encode())
        except OSError as error:
            raise JobFailed(f"InternalServerError: cannot read what {dockerfile} is built from: {error}") from error
        return digest.hexdigest()[:16]

    def _build(self, dockerfile: Path, tag: str) -> None:
        log.info("docker build: %s from %s", tag, dockerfile)
        arguments = [part for name, value in self._arguments.items() for part in ("--build-arg", f"{name}={value}")]
        command = [
            "docker",
            "build",
            "--force-rm",
            "--tag",
            tag,
            "--file",
            str(dockerfile),
            *arguments,
            str(dockerfile.parent),
        ]
        code, last_lines = _logged(command)
        if code != 0:
            raise JobFailed(f"ClientError: cannot build an image from {dockerfile}: {' / '.join(last_lines)}")


def _has(image: str) -> bool:
    try:
        docker("image", "inspect", "--format", "{{.Id}}", "--", image)
    except JobFailed as error:
        if not any(word in error.reason.lower() for word in ("no such image", "invalid reference")):
            raise
        return False
    return True


def _logged(command: list[str]) -> tuple[int, list[str]]:
    """Return a command's exit code and its last three lines; every line is in the log."""
    last_lines: collections.deque[str] = collections.deque(maxlen=3)
    try:
        build = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return 1, [str(error)]
    limit = threading.Timer(BUILT_WITHIN_S, build.kill)
    limit.start()
    with build:
        for line in build.stdout or ():
            if said := line.strip():
                last_lines.append(said)
                log.info("docker build: %s", said)
    limit.cancel()
    return build.returncode, list(last_lines)
