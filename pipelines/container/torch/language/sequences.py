"""Put documents into sequences of equal length, and decide which sequences each step and each process computes.

Several documents share a sequence. The positions of each document begin at 0. By these positions, transformers finds
the documents, and masks the attention between them (`find_packed_sequence_indices`, transformers 5.24, with sdpa).
`check_separation` checks that the loaded model does so.

This module is part of the training job's bundle, so it imports torch, the standard library and files of the bundle.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pipelines.container.torch.language.documents import Document
from pipelines.errors import DataError

IGNORED = -100
"""Target of a position at which nothing has to be predicted, as in torch's cross entropy."""


@dataclass(frozen=True)
class Batch:
    """Some sequences; each tensor has a row for each sequence.

    Attributes:
        tokens: the tokens.
        positions: the position of each token in its document.
        targets: the token that follows in the same document, or `IGNORED`.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(*(tensor.to(device) for tensor in (self.tokens, self.positions, self.targets)))


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Put documents into sequences by best-fit decreasing: at most 11/9 of the fewest possible, plus 4 (Johnson 1974).

    Args:
        lengths: number of tokens of each document, at most `capacity`.
        capacity: number of tokens of a sequence.

    Returns:
        For each sequence, the positions of its documents in `lengths`.
    """
    sequences: list[list[int]] = []
    open_sequences: dict[int, list[int]] = {}  # count of free tokens -> indexes of the sequences
    free_counts: list[int] = []  # the keys of open_sequences, in ascending order
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        place = bisect_left(free_counts, lengths[index])
        if place == len(free_counts):
            sequences.append([index])
            number, free_tokens = len(sequences) - 1, capacity
        else:
            free_tokens = free_counts[place]
            number = open_sequences[free_tokens].pop()
            sequences[number].append(index)
            if not open_sequences[free_tokens]:
                del open_sequences[free_tokens], free_counts[place]
        free_tokens -= lengths[index]
        if free_tokens not in open_sequences:
            insort(free_counts, free_tokens)
        open_sequences.setdefault(free_tokens, []).append(number)
    return sequences


def build_batch(sequences: Sequence[Sequence[Document]], length: int, padding: int) -> Batch:
    """Build the tensors of some sequences. A sequence without documents has only padding.

    Args:
        sequences: the documents of each sequence.
        length: tokens of a sequence.
        padding: token that fills the end of a sequence. Each padding token has the position 0, so it is a
            document of its own.
    """
    tokens = torch.full((len(sequences), length), padding)
    positions = torch.zeros_like(tokens)
    targets = torch.full_like(tokens, IGNORED)
    for row, documents in enumerate(sequences):
        start = 0
        for document in documents:
            end = start + len(document.tokens)
            tokens[row, start:end] = document.tokens
            positions[row, start:end] = torch.arange(end - start)
            first = max(1, document.prompt_length)
            targets[row, start + first - 1 : end - 1] = document.tokens[first:]
            start = end
    return Batch(tokens, positions, targets)


@dataclass(frozen=True)
class Schedule:
    """The sequences of each step. They do not depend on the number of processes.

    Attributes:
        sequence_count: number of sequences.
        batch_size: sequences of a step. The last step of an epoch may have fewer.
        epochs: number of passes over the sequences.
        seed: seed of the order of the sequences, which differs from epoch to epoch.
    """

    sequence_count: int
    batch_size: int
    epochs: int
    seed: int

    @property
    def epoch_steps(self) -> int:
        """Number of steps of an epoch."""
        return -(-self.sequence_count // self.batch_size)

    @property
    def steps(self) -> int:
        """Number of all steps."""
        return self.epoch_steps * self.epochs

    def choose(self, step: int) -> list[int]:
        """Return which sequences a step computes: their numbers, from 0."""
        epoch, number = divmod(step, self.epoch_steps)
        # Each pair of seed and epoch gives another number: `epochs` is at most 100,000.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order = torch.randperm(self.sequence_count, generator=generator)
        first = number * self.batch_size
        chosen_sequences: list[int] = order[first : first + self.batch_size].tolist()
        return chosen_sequences


def divide(numbers: Sequence[int], part_count: int, rank: int, process_count: int) -> list[list[int | None]]:
    """Return the sequences of each part (micro-batch) of a step for one process; None stands for an empty sequence.

    All processes get equally many parts, of the same sizes: processes that divide one model (FSDP) must call it equally
    often.

    Args:
        numbers: the sequences of the step, at least one.
        part_count: largest number of parts.
        rank: position of the process.
        process_count: number of processes.
    """
    size = -(-len(numbers) // part_count)
    parts = []
    for start in range(0, len(numbers), size):
        part = numbers[start : start + size]
        share: list[int | None] = [*part[rank::process_count]]
        share += [None] * (-(-len(part) // process_count) - len(share))
        parts.append(share)
    return parts


def check_separation(compute_logits: Callable[[Batch], torch.Tensor], vocabulary: int, device: torch.device) -> None:
    """Check that the model keeps the documents of a sequence apart: a document must not change the output of the next.

    Args:
        compute_logits: returns the model's logits of a batch.
        vocabulary: number of tokens of the model.
        device: where to compute.

    Raises:
        DataError: the model does not keep them apart. A retry cannot help.
    """
    generator = torch.Generator().manual_seed(0)
    first, other_first, second = torch.randint(vocabulary, (3, 8), generator=generator, dtype=torch.int32)
    outputs = []
    with torch.no_grad():
        for tokens in (first, other_first):
            batch = build_batch([[Document(tokens), Document(second)]], length=16, padding=0).to(device)
            outputs.append(compute_logits(batch)[0, 8:].float())
    difference = float((outputs[0] - outputs[1]).abs().max())
    if not difference <= 1e-3 * float(outputs[0].abs().max()):
        raise DataError(
            "the attention of this model crosses the documents of a sequence.", "Set the hyperparameter packing=false."
        )
