"""Test the provider's description: Airflow's schema accepts it, and it lists every class that Leeway has."""

import json
from importlib import import_module, resources
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import jsonschema
import leeway
import pytest
from airflow.executors.base_executor import BaseExecutor
from airflow.sdk import BaseNotifier, BaseOperator, BaseOperatorLink, BaseSensorOperator
from airflow.triggers.base import BaseTrigger
from leeway.provider import get_provider_info

INFO = get_provider_info()
SCHEMA = json.loads(resources.files("airflow").joinpath("provider_info.schema.json").read_text())
MODULES = [import_module(module.name) for module in walk_packages(leeway.__path__, "leeway.")]


def list_classes(base: type) -> set[str]:
    """List the public classes of Leeway that are derived from a class of Airflow, each as MODULE.CLASS."""

    def is_own(module: ModuleType, value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__

    return {f"{m.__name__}.{name}" for m in MODULES for name, value in vars(m).items() if is_own(m, value)}


def list_modules(key: str) -> set[str]:
    """List the modules of a part of the description."""
    return {module for entry in INFO[key] for module in entry["python-modules"]}


def test_airflow_s_schema_accepts_the_description():
    jsonschema.validate(INFO, SCHEMA)


@pytest.mark.parametrize("change", [{"triggers": [{"python-modules": []}]}, {"operators": "all"}, {"name": 1}])
def test_schema_refuses_a_wrong_description(change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**INFO, **change}, SCHEMA)


@pytest.mark.parametrize(
    ("key", "base"), [("operators", BaseOperator), ("sensors", BaseSensorOperator), ("triggers", BaseTrigger)]
)
def test_all_modules_with_such_classes_are_listed(key, base):
    modules = {name.rpartition(".")[0] for name in list_classes(base)}
    shared_bases = {"leeway.operators.job"}  # a base of operators, and no operator
    assert list_modules(key) == modules - shared_bases


@pytest.mark.parametrize(
    ("key", "base"), [("notifications", BaseNotifier), ("executors", BaseExecutor), ("extra-links", BaseOperatorLink)]
)
def test_all_such_classes_are_listed(key, base):
    assert set(INFO[key]) == list_classes(base) - {"leeway.links.page.PageLink"}  # a base of links


def test_hooks_can_be_imported():
    assert all(hasattr(import_module(name), "StepHook") for name in list_modules("hooks"))


def test_airflow_finds_the_plugin_of_the_installation_once():
    from airflow import plugins_manager

    plugins, import_errors = plugins_manager._get_plugins.__wrapped__()
    assert [plugin.__module__ for plugin in plugins if plugin.name == "leeway"] == ["leeway.plugin"]
    assert import_errors == {}
