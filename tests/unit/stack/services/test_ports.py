"""Test the choice of free ports."""

import socket

from stack.services.ports import ANY_PORTS, choose_ports
from stack.services.record import Ports


def test_chooses_preferred_ports_where_they_are_free():
    ports = choose_ports(ANY_PORTS)
    assert len(set(ports.model_dump().values())) == 4
    assert choose_ports(ports) == ports


def test_never_chooses_a_port_twice():
    port = choose_ports(ANY_PORTS).airflow
    ports = choose_ports(Ports(airflow=port, mlflow=port, drydock=0, docs=port))
    assert ports.airflow == port
    assert len(set(ports.model_dump().values())) == 4


def test_replaces_a_port_that_is_in_use():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        used_port = server.getsockname()[1]
        assert choose_ports(Ports(airflow=used_port, mlflow=0, drydock=0, docs=0)).airflow != used_port
