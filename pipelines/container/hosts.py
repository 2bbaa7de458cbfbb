"""Find the other hosts of a training job on several instances, and pass a text from the first host to all others.

This module is independent of the ML framework. It is part of the training job's bundle, so it imports the standard
library only.
"""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

WAIT_S = 900.0
"""Seconds that a host waits for the other hosts, which may need longer to read their data."""
PAUSE_S = 0.1
"""Seconds between two attempts to connect to the first host."""
REQUEST_S = 5.0
"""Largest number of seconds for one attempt to connect, and for sending or receiving one line. Exception: for the
answer of the first host, each other host waits up to `WAIT_S`."""
FIRST_PORT, PORT_COUNT = 20_000, 10_000
"""The ports that may be used. They are below those that Linux gives to outgoing connections."""
MAX_LINE = 10_000
"""Largest number of characters in a line that is exchanged."""


class HostsError(Exception):
    """The hosts of the job cannot work together; the text says why."""


@dataclass(frozen=True)
class Hosts:
    """The hosts of a job, and which of them this one is.

    Attributes:
        names: names of all hosts; the first is the one that writes the model. They resolve to addresses.
        current_name: name of this host.
        job: name of the job. The port is derived from it, so that two jobs on one machine seldom use the same port.
    """

    names: Sequence[str]
    current_name: str
    job: str

    @property
    def count(self) -> int:
        """Number of hosts."""
        return len(self.names)

    @property
    def index(self) -> int:
        """Position of this host in `names`, from 0."""
        return list(self.names).index(self.current_name)

    @property
    def is_first(self) -> bool:
        """Whether this is the host that writes checkpoints, the record of the training, and the model."""
        return self.index == 0

    def find_first_address(self) -> str:
        """Return the address of the first host. On SageMaker, the names may resolve only after some seconds.

        Raises:
            HostsError: the name does not resolve. A retry can help.
        """
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return socket.gethostbyname(self.names[0])
            except OSError as error:
                if time.monotonic() > deadline:
                    raise HostsError(f"the name of the host {self.names[0]} does not resolve: {error}.") from None
            time.sleep(PAUSE_S)

    def share_text(self, text: str, identity: str) -> str:
        """Return on each host the text that the first host passes. Each host waits for all others.

        Args:
            text: one line, shorter than `MAX_LINE` as JSON. Only the text of the first host is used.
            identity: a word that must be equal on all hosts, such as a digest of the inputs.

        Raises:
            HostsError: a name does not resolve, or a host does not connect or answer in time: a retry can help. Or the
                identity of a host differs: a retry cannot help.
            OSError: the port of the first host is in use. A retry can help.
        """
        return self._serve(text, identity) if self.is_first else self._fetch(identity)

    def _serve(self, text: str, identity: str) -> str:
        """On the first host, wait until all other hosts have connected, and send them the text; return the text."""
        deadline = time.monotonic() + WAIT_S
        missing_names, problem = set(self.names) - {self.current_name}, ""
        streams: list[IO[str]] = []
        # create_server sets SO_REUSEADDR: a job that resumes on this machine finds its port free again.
        with socket.create_server((self.find_first_address(), self._port), backlog=self.count) as server:
            while missing_names:
                server.settimeout(max(0.1, deadline - time.monotonic()))
                try:
                    connection = server.accept()[0]
                except TimeoutError:
                    names = ", ".join(sorted(missing_names))
                    raise HostsError(f"these hosts did not connect within {WAIT_S:.0f} s: {names}.") from None
                connection.settimeout(REQUEST_S)
                stream = connection.makefile("rw", encoding="utf-8", errors="replace")
                connection.close()  # the stream keeps it open
                name, _, other_identity = _read_line(stream).partition(" ")
                if name not in self.names:  # this connection does not come from a host of the job
                    stream.close()
                    continue
                missing_names.discard(name)
                streams.append(stream)
                if other_identity != identity:
                    problem = f"the host {name} has other data or other hyperparameters than {self.current_name}."
        answer = f"{json.dumps({'text': text, 'problem': problem})}\n"
        for other_stream in streams:
            with suppress(OSError), other_stream:
                other_stream.write(answer)
        if problem:
            raise HostsError(problem)
        return text

    def _fetch(self, identity: str) -> str:
        """On another host, connect to the first host, send it the identity, and return the text that it answers."""
        address, deadline = self.find_first_address(), time.monotonic() + WAIT_S
        while True:
            with (
                suppress(OSError, ValueError),
                socket.create_connection((address, self._port), REQUEST_S) as connection,
            ):
                stream = connection.makefile("rw", encoding="utf-8", errors="replace")
                stream.write(f"{self.current_name} {identity}\n")
                stream.flush()
                connection.settimeout(WAIT_S)  # the answer comes when all other hosts have connected
                answer = json.loads(_read_line(stream))
                break
            if time.monotonic() > deadline:
                raise HostsError(f"the host {self.names[0]} does not answer within {WAIT_S:.0f} s.")
            time.sleep(PAUSE_S)
        if answer["problem"]:
            raise HostsError(answer["problem"])
        return str(answer["text"])

    @property
    def _port(self) -> int:
        return FIRST_PORT + zlib.crc32(self.job.encode()) % PORT_COUNT


def read_hosts() -> Hosts:
    """Return the hosts that SageMaker's script mode names: SM_HOSTS, SM_CURRENT_HOST and TRAINING_JOB_NAME.

    Without them, there is one host.
    """
    names = json.loads(os.environ.get("SM_HOSTS") or '["localhost"]')
    current_host = os.environ.get("SM_CURRENT_HOST") or names[0]
    return Hosts(names, current_host, os.environ.get("TRAINING_JOB_NAME", "local"))


def _read_line(stream: IO[str]) -> str:
    """Return the next line without its newline; "" if the connection breaks, or no line comes in time."""
    try:
        return stream.readline(MAX_LINE).rstrip("\n")
    except OSError:
        return ""
