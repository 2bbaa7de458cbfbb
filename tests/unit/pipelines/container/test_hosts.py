"""Test how the hosts of a job find each other: all get the first host's text, or all fail with the same line."""

import socket
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.container import hosts as hosts_module
from pipelines.container.hosts import Hosts, HostsError, read_hosts

NAMES = ["localhost", "127.0.0.1", "LOCALHOST"]


def share(job: Path, identities: Sequence[str], names: Sequence[str] = NAMES) -> list[Future[str]]:
    """Share a text among hosts, each with an identity; the last one comes first."""
    with ThreadPoolExecutor(len(identities)) as pool:
        pairs = reversed(list(zip(names, identities, strict=False)))
        futures = [pool.submit(Hosts(names, name, str(job)).share_text, f"text of {name}", own) for name, own in pairs]
    return futures[::-1]


def test_all_hosts_get_the_text_of_the_first(tmp_path: Path) -> None:
    assert [future.result() for future in share(tmp_path, ["a", "a", "a"])] == ["text of localhost"] * 3
    # The port is free again at once: a job that resumes uses it, too.
    assert [future.result() for future in share(tmp_path, ["a", "a", "a"])] == ["text of localhost"] * 3


def test_a_host_with_another_identity_ends_all(tmp_path: Path) -> None:
    for future in share(tmp_path, ["a", "b", "a"]):
        with pytest.raises(
            HostsError, match=r"^the host 127.0.0.1 has other data or other hyperparameters than localhost"
        ):
            future.result()


def test_a_connection_of_somebody_else_is_ignored(tmp_path: Path) -> None:
    hosts = [Hosts(NAMES[:2], name, str(tmp_path)) for name in NAMES[:2]]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(hosts[0].share_text, "text", "a")
        connected = False
        while not connected:
            try:
                with socket.create_connection(("127.0.0.1", hosts[0]._port)) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\n\n")
                connected = True
            except ConnectionRefusedError:
                pass
        assert hosts[1].share_text("", "a") == future.result() == "text"


def test_a_host_that_does_not_come_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_module, "WAIT_S", 0.3)
    first, second, third = (Hosts(NAMES, name, str(tmp_path)) for name in NAMES)
    with pytest.raises(HostsError, match=r"these hosts did not connect within 0 s: 127.0.0.1, LOCALHOST"):
        first.share_text("text", "a")
    with pytest.raises(HostsError, match="the host localhost does not answer within"):
        second.share_text("", "a")
    with pytest.raises(HostsError, match=r"the name of the host algo-1.invalid does not resolve"):
        Hosts(["algo-1.invalid", "algo-2"], "algo-2", "job").share_text("", "a")
    assert third.index == 2 and not third.is_first


def test_hosts_are_those_of_script_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SM_HOSTS", "SM_CURRENT_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert (read_hosts().count, read_hosts().is_first) == (1, True)
    monkeypatch.setenv("SM_HOSTS", '["algo-1","algo-2"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-2")
    assert (read_hosts().count, read_hosts().index, read_hosts().is_first) == (2, 1, False)
