"""Test how lines become documents: the tokens for start and end, and which tokens count in the loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'leeway[language]'")

from pipelines.container.torch.language.documents import read_corpus  # noqa: E402

START, END = 1, 2


class WordTokenizer:
    """Give each word the number of its characters. A text begins with a token, and may end with one."""

    eos_token_id = END

    def __init__(self, adds_end: bool = False) -> None:
        self.adds_end = adds_end

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> dict[str, list[list[int]]]:
        end = [END] if self.adds_end else []
        tokens = [[10 + len(word) for word in text.split()] for text in texts]
        return {"input_ids": [[START, *each, *end] if add_special_tokens else each for each in tokens]}


def write(folder: Path, *lines: dict[str, str]) -> Path:
    """Write a channel, with an empty line."""
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n\n" for line in lines))
    return folder


@pytest.mark.parametrize("adds_end", [False, True])
def test_tokens_and_targets(tmp_path: Path, adds_end: bool) -> None:
    folder = write(tmp_path, {"text": "a bb ccc"}, {"prompt": "a bb", "completion": "ccc"})
    text, answer = read_corpus(folder, WordTokenizer(adds_end), 10).documents
    assert text.tokens.tolist() == answer.tokens.tolist() == [START, 11, 12, 13, END]
    assert (text.target_count, answer.target_count) == (4, 2)  # without the start; without start and prompt


def test_long_documents(tmp_path: Path) -> None:
    """A text is split, a completion is truncated, and what has no target is left out."""
    words = "a bb ccc dddd eeeee ffffff ggggggg"
    lines = [{"text": words}, {"prompt": "a", "completion": words}, {"prompt": words, "completion": "a"}]
    corpus = read_corpus(write(tmp_path, *lines, {"text": "a"}), WordTokenizer(), 4)
    assert [document.tokens.tolist() for document in corpus.documents] == [
        *([START, 11, 12, 13], [14, 15, 16, 17], [START, 11, 11, 12], [START, 11, END])
    ]
    assert (corpus.split_count, corpus.truncated_count, corpus.empty_count) == (1, 2, 1)


def test_digest_depends_on_tokens_and_prompts(tmp_path: Path) -> None:
    lines = [[{"text": "a bb"}], [{"text": "a ccc"}], [{"prompt": "a", "completion": "bb"}]]
    digests = {read_corpus(write(tmp_path, *each), WordTokenizer(), 9).compute_digest() for each in lines}
    assert len(digests) == 3
    assert read_corpus(write(tmp_path, *lines[2]), WordTokenizer(), 9).compute_digest() in digests
