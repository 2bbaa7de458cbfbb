"""Make an image of the Python that runs the tests for a container engine, without a registry."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

IMAGE = "drydock-test-python:latest"
CHANGES = (
    "ENV LD_LIBRARY_PATH=/lib64",
    "ENV PATH=/usr/local/bin:/bin",
    """ENTRYPOINT ["python3", "-c", "import sys; print(\\"the image's own\\", *sys.argv[1:])"]""",
)


@contextlib.contextmanager
def provide_image() -> Iterator[str]:
    """Make the image, and yield its name; remove the image when the block ends."""
    command = ["docker", "import", *(f"--change={change}" for change in CHANGES), "-", IMAGE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as engine:
        assert engine.stdin is not None
        with tarfile.open(fileobj=engine.stdin, mode="w|") as archive:
            pack_python(archive)
    assert engine.returncode == 0
    yield IMAGE
    subprocess.run(["docker", "image", "rm", "--force", IMAGE], stdout=subprocess.DEVNULL, check=True)


def pack_python(archive: tarfile.TarFile) -> None:
    """Add Python, a shell and the libraries that they need to an archive."""
    library, python = Path(sysconfig.get_path("stdlib")), Path(sys.executable).resolve()
    modules = [path for path in (library / "lib-dynload").glob("*.so") if "tkinter" not in path.name]
    output = subprocess.run(["ldd", "/bin/sh", python, *modules], capture_output=True, text=True).stdout
    for path in {word for word in output.split() if word.startswith("/") and not word.endswith(":")}:
        archive.add(os.path.realpath(path), f"lib64/{Path(path).name}")
    archive.add(os.path.realpath("/bin/sh"), "bin/sh")
    archive.add(python, "usr/local/bin/python3")
    excluded_folders = {"site-packages", "test", "__pycache__", "idlelib", "tkinter"}
    archive.add(
        library,
        f"usr/local/lib/{library.name}",
        filter=lambda item: None if excluded_folders & {*Path(item.name).parts} or "/config-" in item.name else item,
    )
    for name in ("tmp", "etc"):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        archive.addfile(folder)
    passwd = b"root:x:0:0:root:/root:/bin/sh\n"
    entry = tarfile.TarInfo("etc/passwd")
    entry.size = len(passwd)
    archive.addfile(entry, io.BytesIO(passwd))
