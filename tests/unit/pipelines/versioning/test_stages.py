"""Test that dvc.yaml read without DVC gives the same stages and edges as DVC itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.errors import SpecError
from pipelines.versioning import stages
from tests.tools.parameters import copy_models

ROOT = Path(__file__).parents[4]
TEMPLATES = r"""
vars:
  - names: [us, eu]
  - kinds.json:kinds
  - depth: 2
stages:
  fetch:
    foreach: ${names}
    do:
      cmd: fetch ${item}
      outs:
        - raw/${item}.csv:
            cache: false
  fetch_more:
    foreach:
      one: {path: a/1}
      two: {path: a/2}
    do:
      cmd: fetch ${item.path} ${key}
      outs: ["${item.path}"]
  odd:
    foreach: [{n: 1}, {n: 2}]
    do:
      cmd: odd ${item.n}
      outs: ["odd/${item.n}"]
  train:
    matrix:
      place: ${names}
      kind: ${kinds}
      deep: [true, {n: 1}]
    cmd: train ${item.place} ${item.kind} ${depth} \${DEPTH:+$DEPTH}
    deps: ["raw/${item.place}.csv", a]
    params: [train.hyperparameters, "other.json:": ]
    outs: ["models/${key}"]
  join:
    wdir: models
    cmd:
      - join
      - sort
    deps: [., ../odd/1]
    metrics: [../joined.json]
  alone:
    cmd: alone
    plots: [plot.csv]
"""


@pytest.fixture
def dvc_yaml(tmp_path: Path) -> Path:
    """Write a dvc.yaml with templates, and its variables."""
    (tmp_path / "models").mkdir()
    (tmp_path / "kinds.json").write_text('{"kinds": ["tree", "line"]}')
    text = TEMPLATES.replace('params: [train.hyperparameters, "other.json:": ]', "params: [train.hyperparameters]")
    (tmp_path / "dvc.yaml").write_text(text)
    return tmp_path / "dvc.yaml"


def list_dvc_nodes_and_edges(folder: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the nodes and edges of `dvc dag`; an edge goes from a stage to one that depends on it."""
    # One process, since importing DVC takes longer than what it does.
    code = "import sys; from dvc.cli import main\n"
    code += "sys.exit(main(['init', '--no-scm', '-q']) or main(['dag', '--dot']))"
    output = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout
    nodes = set(re.findall(r'^"([^"]+)";$', output, re.MULTILINE))
    return nodes, set(re.findall(r'^"([^"]+)" -> "([^"]+)";$', output, re.MULTILINE))


def list_edges(file: Path) -> set[tuple[str, str]]:
    dependencies_by_stage = stages.find_dependencies(stages.load_stages(file))
    return {(dependency, name) for name, dependencies in dependencies_by_stage.items() for dependency in dependencies}


@pytest.mark.parametrize("file", ["project", "templates"])
def test_edges_are_those_of_dvc_dag(file: str, dvc_yaml: Path) -> None:
    if file == "project":
        dvc_yaml.write_text((ROOT / "dvc.yaml").read_text())
        (dvc_yaml.parent / "params.yaml").write_text((ROOT / "params.yaml").read_text())
        copy_models(ROOT, dvc_yaml.parent)
    nodes, expected = list_dvc_nodes_and_edges(dvc_yaml.parent)
    assert len(expected) >= 5
    assert list_edges(dvc_yaml) == expected
    assert (
        {name for edge in expected for name in edge}
        <= set(stages.load_stages(dvc_yaml))
        == nodes | set(stages.load_stages(dvc_yaml))
    )


def test_a_changed_path_gives_another_edge(dvc_yaml: Path) -> None:
    dvc_yaml.write_text((ROOT / "dvc.yaml").read_text().replace("- data/verdict.json", "- data/model/verdict.json"))
    assert ("gate@flights", "evaluate@flights") in list_edges(dvc_yaml)


def test_templates_give_names_commands_and_parameters(dvc_yaml: Path) -> None:
    all_stages = stages.load_stages(dvc_yaml)
    assert list(all_stages)[:6] == ["fetch@us", "fetch@eu", "fetch_more@one", "fetch_more@two", "odd@0", "odd@1"]
    assert all_stages["train@us-tree-true"].cmd == "train us tree 2 ${DEPTH:+$DEPTH}"
    assert "train@eu-line-deep1" in all_stages
    assert all_stages["join"].cmd == "join\nsort"
    assert all_stages["train@us-tree-true"].params == (("params.yaml", "train.hyperparameters"),)


def test_selects_a_stage_with_its_dependencies_and_lists_their_inputs() -> None:
    all_stages = stages.load_stages(ROOT / "dvc.yaml")
    chosen_stages = stages.select_with_dependencies(all_stages, ["train@flights", "no such stage"])
    assert [stage.name for stage in chosen_stages] == ["snapshot@flights", "preprocess@flights", "train@flights"]
    preprocess = chosen_stages[1]
    inputs = stages.list_source_inputs(preprocess, chosen_stages)
    assert "pipelines/features" in inputs
    assert not [path for path in inputs if "data/" in path]
    snapshot = "models/flights/data/snapshot.json"
    assert snapshot in stages.list_source_inputs(preprocess, chosen_stages[1:]), "the output of an earlier stage"
    assert preprocess.make_relative(snapshot) == "data/snapshot.json"


def test_a_stage_of_a_model_is_named_without_the_model() -> None:
    all_stages = stages.load_stages(ROOT / "dvc.yaml")
    assert stages.name_stages_of_model(["train", "nope"], "flights", all_stages) == ["train@flights", "nope"]
    assert stages.name_stages_of_model(["train"], "", all_stages) == ["train"], "DVC refuses it"
    assert stages.strip_model_suffix("train@flights", "flights") == "train"
    assert stages.strip_model_suffix("part@a", "") == "part@a"


INVALID = {
    "no file": None,
    "empty": "",
    "a list": "- x\n",
    "no stages": "stages:\n",
    "not YAML": "stages: [",
    "hole": "stages:\n  a:\n    cmd: ${x}\n",
}


@pytest.mark.parametrize("case", INVALID)
def test_refuses_an_invalid_dvc_yaml(case: str, tmp_path: Path) -> None:
    if INVALID[case] is not None:
        (tmp_path / "dvc.yaml").write_text(str(INVALID[case]))
    with pytest.raises(SpecError, match=r"dvc\.yaml"):
        stages.load_stages(tmp_path / "dvc.yaml")


def test_the_digest_of_inputs_changes_with_all_that_decides_the_outputs(tmp_path: Path) -> None:
    from pipelines.versioning.runcache import digest_inputs

    text = "stages:\n  pin:\n    cmd: pin\n    params: [snapshot.as_of]\n    outs: [data/pin]\n"
    text += "  make:\n    cmd: make\n    deps: [data/pin, code.py]\n    params: [preprocess]\n    outs: [data/out]\n"
    files = {
        "dvc.yaml": text,
        "code.py": "1",
        "params.yaml": "snapshot: {as_of: 2013-01-01}\npreprocess: {validation_days: 1}\n",
    }

    def compute_digest(refreshed: tuple[str, ...] = (), **changed: str) -> str:
        for name, content in {**files, **changed}.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        return digest_inputs(tmp_path, ["make"], refreshed)

    digest = compute_digest()
    assert compute_digest(data__out="made") == compute_digest(data__pin="one") == digest, (
        "outputs do not change the digest"
    )
    assert compute_digest(**{"code.py": "2"}) != digest
    assert compute_digest(**{"dvc.yaml": text.replace("cmd: make", "cmd: make it")}) != digest
    assert compute_digest(**{"params.yaml": files["params.yaml"].replace("days: 1", "days: 2")}) != digest
    other_day = {"params.yaml": files["params.yaml"].replace("01-01", "01-02")}
    assert compute_digest(**other_day) != digest
    pinned_digest = compute_digest(("pin",), data__pin="one")
    assert compute_digest(("pin",), **other_day) == pinned_digest, (
        "of a finished stage, only the outputs change the digest"
    )
    assert compute_digest(("pin",), data__pin="two") != pinned_digest


def test_bytecode_is_no_reason_to_run_a_stage_again() -> None:
    """The folder pipelines/evaluation/gates is a dependency, and Python writes bytecode into it."""
    folder = ROOT / "pipelines" / "evaluation" / "gates"
    bytecode, source = (str(folder / name) for name in ("__pycache__/policy.cpython-311.pyc", "policy.py"))
    process = subprocess.run(
        [sys.executable, "-m", "dvc", "check-ignore", bytecode, source], cwd=ROOT, capture_output=True, text=True
    )
    assert (process.returncode, process.stdout.split()) == (0, [bytecode]), process.stderr
