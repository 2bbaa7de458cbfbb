"""Provide the sequences of a channel to a training: which ones a process computes in a step, and their tensors.

This module is part of the training job's bundle, so it imports torch, the standard library and files of the bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.container.torch.language.documents import Document, read_corpus
from pipelines.container.torch.language.hyperparameters import Hyperparameters
from pipelines.container.torch.language.sequences import Batch, build_batch, divide, pack
from pipelines.container.torch.processes import Processes


class ChannelData:
    """The sequences of a channel. Each process has all sequences, and computes its share.

    Args:
        folder: folder of the channel.
        tokenizer: the tokenizer of the base model.
        hyperparameters: length of a sequence, packing, and size of a batch.
        processes: the processes of the training.

    Attributes:
        sequences: the documents of each sequence.
        digest: digest of all tokens of the channel.
        description: a line about the channel, for the log.

    Raises:
        DataError: the channel has no document, or a line does not have the fields of a document. A retry cannot help.
    """

    def __init__(self, folder: Path, tokenizer: Any, hyperparameters: Hyperparameters, processes: Processes) -> None:
        self._hyperparameters, self._processes = hyperparameters, processes
        self._padding = tokenizer.eos_token_id
        length = hyperparameters.sequence_length
        corpus = read_corpus(folder, tokenizer, length)
        token_counts = [len(document.tokens) for document in corpus.documents]
        groups = pack(token_counts, length) if hyperparameters.packing else [[i] for i in range(len(token_counts))]
        self.sequences: Sequence[Sequence[Document]] = [[corpus.documents[i] for i in group] for group in groups]
        self.digest = corpus.compute_digest()
        filled_share = sum(token_counts) / (len(groups) * length)
        self.description = f"{folder.name}: {corpus.describe()}; {len(groups)} sequences, {filled_share:.0%} full"

    def count_targets(self, numbers: Sequence[int]) -> int:
        """Return the number of tokens that the model has to predict in the sequences with these numbers."""
        return sum(document.target_count for number in numbers for document in self.sequences[number])

    def build_parts(self, numbers: Sequence[int]) -> list[Batch]:
        """Return this process's share of each part (micro-batch) of a step.

        A step has at most `accumulation` parts. Every process gets the same number of them.

        Args:
            numbers: numbers of the step's sequences.
        """
        processes = self._processes
        parts = divide(numbers, self._hyperparameters.accumulation, processes.rank, processes.count)
        return [self._build(part) for part in parts]

    def iterate_batches(self) -> Iterator[Batch]:
        """Yield this process's share of all sequences, in batches as large as the parts of a step."""
        numbers, size = range(len(self.sequences)), self._hyperparameters.batch_size
        for start in range(0, len(numbers), size):
            yield from self.build_parts(numbers[start : start + size])

    def _build(self, part: Sequence[int | None]) -> Batch:
        """Return the tensors of the sequences with these numbers; None stands for an empty sequence."""
        documents = [self.sequences[number] if number is not None else () for number in part]
        length = self._hyperparameters.sequence_length
        return build_batch(documents, length, self._padding).to(self._processes.device)
