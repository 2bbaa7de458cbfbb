"""Test that Application Auto Scaling and AWS Batch are loaded at their first use."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from drydock.autoscaling.service import Autoscaling
from drydock.autoscaling.targets import list_resource_ids, open_targets
from drydock.resources import Owner
from drydock.store import Store

IMPORTS = """
import sys
{code}
print([name for name in ("moto.applicationautoscaling", "moto.batch", "moto.ec2") if name in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import drydock.api.server", "[]"),
        # These are the negative controls: what is loaded later imports them.
        ("import drydock.autoscaling.backend", "['moto.applicationautoscaling', 'moto.ec2']"),
        pytest.param("import drydock.api.batch.backend", "['moto.batch', 'moto.ec2']", marks=pytest.mark.soak),
    ],
)
def test_start_imports_neither_the_services_nor_ec2(code: str, expected: str) -> None:
    command = [sys.executable, "-c", IMPORTS.format(code=code)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # a forked process has both
    assert (result.returncode, result.stdout.strip()) == (0, expected), result.stderr


def test_policies_that_an_earlier_server_stored_are_loaded_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[Autoscaling] = []

    def load(self: Autoscaling) -> None:
        loads.append(self)

    monkeypatch.setattr(Autoscaling, "load", load)
    store, owner = Store(tmp_path / "drydock.sqlite"), Owner("123456789012", "us-east-1")
    autoscaling = Autoscaling(SimpleNamespace(store=store), 60.0)
    autoscaling.start()
    assert loads == [], "there is nothing to evaluate"
    resource_id = "endpoint/flights/variant/AllTraffic"
    open_targets(store).write(owner, resource_id, json.dumps({"r_id": resource_id}))
    autoscaling.start()
    assert loads == [autoscaling]
    assert list_resource_ids(store, owner) == {resource_id} and not list_resource_ids(store, Owner("1", "us-east-1"))
    store.close()
