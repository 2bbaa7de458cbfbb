"""Read the documents of a fine-tuning from JSON lines, and tokenize them.

A line is {"text": ...}, or {"prompt": ..., "completion": ...}. The loss of a prompt with a completion is computed on
the completion only.

This module is part of the training job's bundle, so it imports torch, the standard library and files of the bundle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from pipelines.errors import DataError

PATTERNS = ("*.jsonl", "*.json")
"""Names of the files that are read."""
BATCH_LINES = 1_000
"""Number of lines that are tokenized together."""
FORMAT_HINT = 'Each line must be {"text": "..."} or {"prompt": "...", "completion": "..."}.'


@dataclass(frozen=True)
class Document:
    """The tokens of a document, or of a piece of one.

    Attributes:
        tokens: its tokens, int32.
        prompt_length: number of tokens at the start that the model need not predict. The model never predicts the
            first token.
    """

    tokens: torch.Tensor
    prompt_length: int = 0

    @property
    def target_count(self) -> int:
        """Number of tokens that the model has to predict."""
        return max(0, len(self.tokens) - max(1, self.prompt_length))


@dataclass(frozen=True)
class Corpus:
    """The documents of a channel, none longer than a sequence.

    Attributes:
        documents: the documents, in the order of the files' names and of their lines.
        split_count: number of texts that were longer than a sequence, and were split.
        truncated_count: number of completions that were truncated, because they did not fit.
        empty_count: number of documents without a token to predict, which are left out.
    """

    documents: Sequence[Document]
    split_count: int
    truncated_count: int
    empty_count: int

    def describe(self) -> str:
        """Return a line about the documents, for the log."""
        token_count = sum(len(document.tokens) for document in self.documents)
        counts = f"{self.split_count} texts (split), {self.truncated_count} completions (truncated)"
        long_text = f"longer than a sequence: {counts}"
        return f"{len(self.documents)} documents, {token_count} tokens; {long_text}; left out: {self.empty_count}"

    def compute_digest(self) -> str:
        """Return a digest of all tokens, hex digits."""
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(f"{len(document.tokens)} {document.prompt_length} ".encode())
            digest.update(document.tokens.numpy().tobytes())
        return digest.hexdigest()


def read_corpus(folder: Path, tokenizer: Any, sequence_length: int) -> Corpus:
    """Read the documents of a channel.

    A text that is longer than a sequence is split into pieces. A longer prompt with a completion is truncated. A
    document or piece without a token to predict is left out.

    Args:
        folder: folder of the channel, with *.jsonl or *.json.
        tokenizer: the tokenizer of the base model.
        sequence_length: largest number of tokens of a document.

    Raises:
        DataError: there is no document, or a line does not have the fields of a document. A retry cannot help.
    """
    documents: list[Document] = []
    split_count = truncated_count = empty_count = 0
    lines = _read_lines(folder)
    while batch := list(islice(lines, BATCH_LINES)):
        for document in _tokenize(batch, tokenizer):
            is_long = len(document.tokens) > sequence_length
            split_count += is_long and not document.prompt_length
            truncated_count += is_long and document.prompt_length > 0
            pieces = [piece for piece in _divide(document, sequence_length) if piece.target_count]
            empty_count += not pieces
            documents += pieces
    if not documents:
        raise DataError(f"the channel {folder.name} has no document with a token to predict.", FORMAT_HINT)
    return Corpus(documents, split_count, truncated_count, empty_count)


def _divide(document: Document, length: int) -> Iterator[Document]:
    """Yield the pieces of a text; of a prompt with a completion, only what fits into one sequence."""
    if document.prompt_length:
        yield Document(document.tokens[:length], document.prompt_length)
        return
    for piece in document.tokens.split(length):
        yield Document(piece.clone())


def _read_lines(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the content of the lines of all files, in the order of their names."""
    paths = sorted(path for pattern in PATTERNS for path in folder.rglob(pattern) if path.is_file())
    if not paths:
        raise DataError(f"the channel {folder.name} has no file *.jsonl or *.json.", FORMAT_HINT)
    for path in paths:
        with path.open(encoding="utf-8") as file:
            try:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield _parse_line(line, f"{path.name}, line {number}")
            except UnicodeDecodeError:
                raise DataError(f"{path.name} is not UTF-8.", FORMAT_HINT) from None


def _parse_line(line: str, place: str) -> dict[str, str]:
    try:
        content = json.loads(line)
    except ValueError:
        raise DataError(f"{place} is not JSON.", FORMAT_HINT) from None
    names = set(content) if isinstance(content, dict) else set()
    name_sets: tuple[set[str], ...] = ({"text"}, {"prompt", "completion"})
    if names not in name_sets or not all(isinstance(value, str) for value in content.values()):
        raise DataError(f"{place} has other fields, or a value that is not a text.", FORMAT_HINT)
    return dict(content)


def _tokenize(lines: Sequence[dict[str, str]], tokenizer: Any) -> Iterator[Document]:
    """Yield the document of each line. The last token of each document means the end of a text."""
    end = tokenizer.eos_token_id
    # A prompt begins as a text does, perhaps with a token for the start; a completion continues it.
    prompts = tokenizer([line.get("text", line.get("prompt", "")) for line in lines])["input_ids"]
    completions = tokenizer([line.get("completion", "") for line in lines], add_special_tokens=False)["input_ids"]
    for line, prompt, completion in zip(lines, prompts, completions, strict=True):
        if prompt and prompt[-1] == end:  # some tokenizers append it themselves
            prompt.pop()
        tokens = torch.tensor([*prompt, *completion, end], dtype=torch.int32)
        yield Document(tokens, len(prompt) if "prompt" in line else 0)
