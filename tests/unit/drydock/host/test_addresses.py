"""Test how Python scripts find the hosts of a job by name where a host has no /etc/hosts of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drydock.host.addresses import build_name_variables, choose_addresses

SCRIPT = """
import asyncio, socket
server = socket.socket()
server.bind(("algo-2", 0))
server.listen()
port = server.getsockname()[1]
with socket.socket() as client:
    client.connect(("algo-2", port))
socket.create_connection(("algo-2", port)).close()

async def connect():
    (await asyncio.open_connection("algo-2", port))[1].close()

asyncio.run(connect())
print(server.getsockname()[0], socket.gethostbyname("algo-1"), socket.gethostname())
print(socket.getaddrinfo("127.0.0.1", 80)[0][4], socket.gethostbyname("localhost"))
try:
    socket.gethostbyname("algo-3.invalid")
except OSError:
    print("unknown")
"""


def run_script(script: str, variables: dict[str, str]) -> str:
    environment = {"PATH": os.environ["PATH"], **variables}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all loopback addresses")
def test_python_finds_the_hosts_by_name() -> None:
    addresses = choose_addresses("arn:job", ["algo-1", "algo-2"])
    output = run_script(SCRIPT, build_name_variables("algo-2", addresses, "")).splitlines()
    assert output[0] == f"{addresses['algo-2']} {addresses['algo-1']} algo-2"
    assert output[1:] == ["('127.0.0.1', 80) 127.0.0.1", "unknown"]
    assert addresses["algo-1"] != addresses["algo-2"] and not addresses["algo-1"].startswith("127.0.")


def test_another_sitecustomize_is_still_imported(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the own one')\n")
    variables = build_name_variables("algo-1", {"algo-1": "127.9.9.1"}, str(tmp_path))
    assert run_script("import sys; print('script')", variables).splitlines() == ["the own one", "script"]
