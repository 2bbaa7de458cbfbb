"""The image of a job's container: one that the engine has, or one built from a Dockerfile."""

import collections
import hashlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from drydock.errors import RunFailed
from drydock.execution.engine import run_docker

log = logging.getLogger(__name__)

REPOSITORY = "drydock-training"
"""Name of the images that drydock builds."""
BUILD_TIMEOUT_S = 1800.0
"""Seconds after which a build is killed."""
COMPATIBLE_ARCHITECTURES = {("386", "amd64"), ("arm", "arm64")}
"""Pairs of architectures, in Docker's names: programs of the first also run on machines of the second."""
EMULATORS = {"amd64": ("qemu-x86_64", "rosetta"), "arm64": ("qemu-aarch64",)}
"""The names under which Linux registers emulators of an architecture."""
EMULATORS_FOLDER = Path("/proc/sys/fs/binfmt_misc")


class Images:
    """Chooses the image to run, and builds it if necessary. Safe for several threads.

    Args:
        dockerfile: The Dockerfile to build if the engine does not have a job's image. Its folder is the build context.
            None to build nothing.
        build_arguments: Values for the Dockerfile's ARGs.
    """

    def __init__(self, dockerfile: Path | None = None, build_arguments: Mapping[str, str] | None = None) -> None:
        self._dockerfile, self._arguments = dockerfile, dict(build_arguments or {})
        self._lock = threading.Lock()

    def find_image(self, image: str) -> str:
        """Return an image that the engine has: the requested one, or else the one built from the Dockerfile.

        Args:
            image: The requested image; "" if the request names an algorithm instead.

        Raises:
            RunFailed: The engine does not have the image and there is no Dockerfile, the build failed, the image is
                for machines of another architecture, or the engine does not answer (then a retry can help).
        """
        if image and (architecture := _read_architecture(image)) is not None:
            _check_architecture(image, architecture)
            return image
        if self._dockerfile is None:
            missing_image = image or "for a request that names only an algorithm"
            raise RunFailed(
                f"ClientError: the container engine has no image {missing_image}. "
                "Pull or build it, or start drydock with --dockerfile to build an image for such jobs."
            )
        with self._lock:  # several jobs that need the image wait for one build
            tag = f"{REPOSITORY}:{self._compute_digest(self._dockerfile)}"
            if _read_architecture(tag) is None:
                self._build(self._dockerfile, tag)
            return tag

    def _compute_digest(self, dockerfile: Path) -> str:
        digest = hashlib.sha256(json.dumps([dockerfile.name, self._arguments], sort_keys=True).encode())
        try:
            digest.update(dockerfile.read_bytes())
            for path in sorted(path for path in dockerfile.parent.rglob("*") if path.is_file()):
                file_digest = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{path.relative_to(dockerfile.parent)}\0{file_digest}\n".encode())
        except OSError as error:
            raise RunFailed(f"InternalServerError: cannot read the folder of {dockerfile}: {error}") from error
        return digest.hexdigest()[:16]

    def _build(self, dockerfile: Path, tag: str) -> None:
        log.info("docker build: %s from %s", tag, dockerfile)
        arguments = [part for name, value in self._arguments.items() for part in ("--build-arg", f"{name}={value}")]
        options = ["--force-rm", "--tag", tag, "--file", str(dockerfile), *arguments]
        exit_code, last_lines = _run_and_log(["docker", "build", *options, str(dockerfile.parent)])
        if exit_code != 0:
            raise RunFailed(f"ClientError: cannot build an image from {dockerfile}: {' / '.join(last_lines)}")


def _read_architecture(image: str) -> str | None:
    """Return the architecture of an image of the engine, such as amd64; None if the engine does not have the image."""
    try:
        return run_docker("image", "inspect", "--format", "{{.Architecture}}", "--", image)
    except RunFailed as error:
        if not any(text in error.reason.lower() for text in ("no such image", "invalid reference")):
            raise
        return None


def _check_architecture(image: str, architecture: str) -> None:
    """Check that the engine's machine can run programs of an architecture, if need be in an emulator.

    Raises:
        RunFailed: The machine's kernel would refuse the first program with "exec format error".
    """
    machine = run_docker("version", "--format", "{{.Server.Arch}}")
    if not architecture or architecture == machine or (architecture, machine) in COMPATIBLE_ARCHITECTURES:
        return
    # On Linux, the engine uses this machine's kernel, which must have an emulator. On other systems, the engine runs in
    # a virtual machine that has emulators.
    names = EMULATORS.get(architecture, ())
    if sys.platform != "linux" or any((EMULATORS_FOLDER / name).exists() for name in names):
        log.warning("the image %s is for %s, and is emulated on this machine's %s", image, architecture, machine)
        return
    raise RunFailed(
        f"ClientError: the image {image} is for {architecture}, and this machine's architecture is {machine}: "
        f"build or pull it for linux/{machine}."
    )


def _run_and_log(command: list[str]) -> tuple[int, list[str]]:
    """Run a command and log each line of its output. Return its exit code and its last three lines."""
    last_lines: collections.deque[str] = collections.deque(maxlen=3)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return 1, [str(error)]
    timer = threading.Timer(BUILD_TIMEOUT_S, process.kill)
    timer.start()
    with process:
        for raw_line in process.stdout or ():
            if line := raw_line.strip():
                last_lines.append(line)
                log.info("docker build: %s", line)
    timer.cancel()
    return process.returncode, list(last_lines)
