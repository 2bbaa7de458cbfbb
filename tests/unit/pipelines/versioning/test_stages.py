"""What is read of a dvc.yaml without DVC: the same stages and edges as DVC itself finds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.errors import SpecError
from pipelines.versioning import stages

ROOT = Path(__file__).parents[4]
FANNED = """
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
    cmd: train ${item.place} ${item.kind} ${depth}
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
def fanned(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "kinds.json").write_text('{"kinds": ["tree", "line"]}')
    text = FANNED.replace('params: [train.hyperparameters, "other.json:": ]', "params: [train.hyperparameters]")
    (tmp_path / "dvc.yaml").write_text(text)
    return tmp_path / "dvc.yaml"


def dags(folder: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The nodes and edges of `dvc dag`: from what is needed to what needs it."""
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], cwd=folder, check=True)
    told = subprocess.run(
        [sys.executable, "-m", "dvc", "dag", "--dot"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    nodes = set(re.findall(r'^"([^"]+)";$', told, re.MULTILINE))
    return nodes, set(re.findall(r'^"([^"]+)" -> "([^"]+)";$', told, re.MULTILINE))


def edges(file: Path) -> set[tuple[str, str]]:
    needs = stages.find_dependencies(stages.load_stages(file))
    return {(before, name) for name, all_before in needs.items() for before in all_before}


@pytest.mark.parametrize("which", ["ours", "fanned out"])
def test_edges_are_those_of_dvc_dag(which: str, fanned: Path) -> None:
    if which == "ours":
        fanned.write_text((ROOT / "dvc.yaml").read_text())
        (fanned.parent / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    nodes, wanted = dags(fanned.parent)
    assert len(wanted) >= 5
    assert edges(fanned) == wanted
    assert (
        {one for edge in wanted for one in edge}
        <= set(stages.load_stages(fanned))
        == nodes | set(stages.load_stages(fanned))
    )


def test_an_edge_that_is_not_there_is_seen(fanned: Path) -> None:
    fanned.write_text((ROOT / "dvc.yaml").read_text().replace("- data/verdict.json", "- data/model/verdict.json"))
    assert ("gate", "evaluate") in edges(fanned)


def test_names_commands_and_parameters(fanned: Path) -> None:
    known = stages.load_stages(fanned)
    assert list(known)[:6] == ["fetch@us", "fetch@eu", "fetch_more@one", "fetch_more@two", "odd@0", "odd@1"]
    assert known["train@us-tree-true"].cmd == "train us tree 2"
    assert "train@eu-line-deep1" in known
    assert known["join"].cmd == "join\nsort"
    assert known["train@us-tree-true"].params == (("params.yaml", "train.hyperparameters"),)


def test_closure_and_inputs() -> None:
    known = stages.load_stages(ROOT / "dvc.yaml")
    chosen = stages.select_with_dependencies(known, ["train", "no such stage"])
    assert [stage.name for stage in chosen] == ["snapshot", "preprocess", "train"]
    given = stages.list_source_inputs(chosen)
    assert "pipelines/features" in given
    assert not [path for path in given if path.startswith("data/")]
    assert "data/snapshot.json" in stages.list_source_inputs(chosen[1:]), "what a stage made that is done is a file"


BAD = {
    "no file": None,
    "empty": "",
    "a list": "- x\n",
    "no stages": "stages:\n",
    "not YAML": "stages: [",
    "hole": "stages:\n  a:\n    cmd: ${x}\n",
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_dvc_yaml_is_one_line(case: str, tmp_path: Path) -> None:
    if BAD[case] is not None:
        (tmp_path / "dvc.yaml").write_text(str(BAD[case]))
    with pytest.raises(SpecError, match=r"dvc\.yaml"):
        stages.load_stages(tmp_path / "dvc.yaml")


def test_the_digest_of_inputs_changes_with_what_decides_the_outputs(tmp_path: Path) -> None:
    from pipelines.versioning.runcache import digest_inputs

    text = "stages:\n  pin:\n    cmd: pin\n    params: [snapshot.as_of]\n    outs: [data/pin]\n"
    text += "  make:\n    cmd: make\n    deps: [data/pin, code.py]\n    params: [preprocess]\n    outs: [data/out]\n"
    files = {
        "dvc.yaml": text,
        "code.py": "1",
        "params.yaml": "snapshot: {as_of: 2013-01-01}\npreprocess: {validation_days: 1}\n",
    }

    def told(refreshed: tuple[str, ...] = (), **changed: str) -> str:
        for name, content in {**files, **changed}.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        return digest_inputs(tmp_path, ["make"], refreshed)

    same = told()
    assert told(data__out="made") == told(data__pin="one") == same, "what stages make does not count"
    assert told(**{"code.py": "2"}) != same
    assert told(**{"dvc.yaml": text.replace("cmd: make", "cmd: make it")}) != same
    assert told(**{"params.yaml": files["params.yaml"].replace("days: 1", "days: 2")}) != same
    other_day = {"params.yaml": files["params.yaml"].replace("01-01", "01-02")}
    assert told(**other_day) != same
    pinned = told(("pin",), data__pin="one")
    assert told(("pin",), **other_day) == pinned, "a stage that is done decides by what it made alone"
    assert told(("pin",), data__pin="two") != pinned


@pytest.mark.parametrize(("name", "ignored"), [("__pycache__/policy.cpython-311.pyc", True), ("policy.py", False)])
def test_bytecode_is_no_reason_to_run_a_stage_again(name: str, ignored: bool) -> None:
    """pipelines/evaluation/gates is a dependency as a folder, and whoever runs a stage writes bytecode into it."""
    path = ROOT / "pipelines" / "gates" / name
    told = subprocess.run([sys.executable, "-m", "dvc", "check-ignore", str(path)], cwd=ROOT, capture_output=True)
    assert (told.returncode == 0) is ignored
