"""Test that a wrong input fails with one line, before anything is trained or written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def change_json(name: str, **values: Any) -> Callable[[Path], None]:
    """Return a function that changes values of a JSON file of a model folder."""

    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **values}))

    return change


def replace_by_pickle(folder: Path) -> None:
    """Leave the model with a pickle alone, as older models have."""
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def leave_adapter(folder: Path) -> None:
    """Make the folder look like that of an adapter."""
    (folder / "config.json").rename(folder / "adapter_config.json")


def truncate_weights(folder: Path) -> None:
    """Leave half of the file with the weights."""
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def drop_weight(folder: Path) -> None:
    """Leave out a weight, which transformers would fill with random numbers."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def check_failure(job: Any, text: str) -> None:
    """Check that the job ended with this line, and without a model."""
    codes, log = job.wait()
    assert codes == [1] * len(codes), log
    failure = job.read_failure()
    assert text in failure and "\n" not in failure
    assert log.count("\n" + failure) + log.startswith(failure) == len(codes), log
    assert "Traceback" not in log and "step 1/" not in log
    assert not (job.folder / "host-0/model").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (shutil.rmtree, "there is no channel model: "),
        (lambda folder: (folder / "config.json").unlink(), "the channel model has no config.json."),
        (leave_adapter, "the channel model has an adapter, not a base model."),
        (replace_by_pickle, "the base model is a pickle (pytorch_model.bin), which could run code, so it is not read."),
        (lambda folder: (folder / "model.safetensors").unlink(), "the base model has no weights"),
        (truncate_weights, "the base model cannot be read (SafetensorError)"),
        (drop_weight, "the base model is incomplete: 1 weights are missing: model.layers.1.mlp.up_proj.weight."),
        (change_json("config.json", model_type="unheard-of"), "the base model cannot be read (ValueError)"),
        (change_json("config.json", num_hidden_layers=3), "the base model is incomplete: 9 weights are missing"),
        (change_json("config.json", auto_map={"AutoModelForCausalLM": "x.Y"}), "needs Python code of its own"),
        (change_json("config.json", quantization_config={"bits": 4}), "the base model is quantized"),
        (change_json("config.json", max_position_embeddings=32), "sequence_length is 48, but the base model has only"),
        (change_json("tokenizer_config.json", eos_token=None), "the tokenizer has no token for the end of a text."),
        (lambda folder: (folder / "tokenizer.json").unlink(), "the tokenizer of the base model cannot be read"),
    ],
)
def test_wrong_base_model(make_job: Any, base_model: Path, tmp_path: Path, change: Any, text: str) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(base_model, folder)
    change(folder)
    job = make_job("job", model=folder)
    job.start()
    check_failure(job, text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "has no file *.jsonl or *.json."),
        ("", "has no document with a token to predict."),
        ('{"text": ""}\n', "has no document with a token to predict."),
        ('{"text": "The cat"}\n{"text": 3}\n', "a.jsonl, line 2 has other fields, or a value that is not a text."),
        ('{"prompt": "The cat"}\n', "a.jsonl, line 1 has other fields"),
        ('{"messages": []}\n', "a.jsonl, line 1 has other fields"),
        ("The cat\n", "a.jsonl, line 1 is not JSON."),
        (b"\xff\xfe", "a.jsonl is not UTF-8."),
    ],
)
def test_wrong_documents(make_job: Any, tmp_path: Path, content: str | bytes | None, text: str) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    if content is not None:
        (folder / "a.jsonl").write_bytes(content.encode() if isinstance(content, str) else content)
    job = make_job("job", train=folder)
    job.start()
    check_failure(job, text)


@pytest.mark.parametrize(
    ("hyperparameters", "text"),
    [
        ({"num_round": 3}, "unknown hyperparameters: --num_round 3. Use one of: method, "),
        ({"epochs": 0}, "hyperparameter epochs: it must be a whole number from 1 to 100000, but is '0'."),
        ({"packing": "perhaps"}, "hyperparameter packing: it must be true or false, but is 'perhaps'."),
        ({"lora_targets": "absent"}, "hyperparameter lora_targets: "),
    ],
)
def test_wrong_hyperparameters(make_job: Any, hyperparameters: dict[str, Any], text: str) -> None:
    job = make_job("job")
    job.start(**hyperparameters)
    check_failure(job, text)


def test_hosts_with_other_documents_fail(make_job: Any, tmp_path: Path) -> None:
    job = make_job("job")
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "The cat sees the dog home."}\n')
    job.host_channels[1] = {"train": folder}
    job.start(2)
    check_failure(job, "the process of rank 1 has other data or other hyperparameters than that of rank 0.")


def test_hosts_with_other_base_models_fail(make_job: Any, base_model: Path, tmp_path: Path) -> None:
    job = make_job("job")
    folder = tmp_path / "changed"
    shutil.copytree(base_model, folder)
    change_json("config.json", rms_norm_eps=0.1)(folder)
    job.host_channels[1] = {"model": folder}
    job.start(2)
    check_failure(job, "a host has another base model than the first host.")


def test_long_documents_are_divided(make_job: Any, tmp_path: Path) -> None:
    """A text is split into pieces, a completion is truncated; the log says how many."""
    folder = tmp_path / "documents"
    folder.mkdir()
    text = "The cat sees the dog home. " * 20
    lines = [{"text": text}, {"prompt": "The cat", "completion": text}, {"prompt": text, "completion": "home"}]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    log = make_job("job", train=folder).run()
    assert "longer than a sequence: 1 texts (split), 2 completions (truncated); left out: 1;" in log
