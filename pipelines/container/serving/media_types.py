"""Choose the content type of an answer by the request's header Accept."""

from __future__ import annotations

import re
from typing import NamedTuple

from pipelines.container.serving.tables import BadRequest

QUALITY = re.compile(r"q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")
"""The parameter `q` of a media range, 0 to 1 (RFC 9110, section 12.4.2)."""
MAX_MESSAGE_CHARS = 100
"""Largest number of characters of a header that an error shows."""


class Rank(NamedTuple):
    """How well a content type suits a request; the larger, the better."""

    quality: float
    """0 to 1; 0: the request refuses the type."""
    position: int
    """0 for the first media range of the header, and -1, -2, ... for the next ones."""


def choose_type(accept: str, *offered_types: str) -> str:
    """Return the offered content type that the request prefers (RFC 9110, section 12.5.1).

    This is the type with the largest `q`; of types with an equal `q`, the one that the header names first; then the one
    that is offered first. Parameters other than `q`, such as `charset`, have no effect. An empty header accepts all
    types.

    Args:
        accept: header Accept of the request.
        offered_types: content types in which the server can answer, in lower case.

    Raises:
        BadRequest: the request accepts none of them; the status is 406.
    """
    ranges = _parse_ranges(accept) or {"*/*": Rank(1.0, 0)}
    ranks = {offered_type: _find_rank(ranges, offered_type) for offered_type in offered_types}
    best_type = max(ranks, key=ranks.__getitem__)
    if not ranks[best_type].quality:
        supported_types = " or ".join(offered_types)
        raise BadRequest(f"content type {accept[:MAX_MESSAGE_CHARS]} is not supported: accept {supported_types}", 406)
    return best_type


def _parse_ranges(accept: str) -> dict[str, Rank]:
    """Map each media range of the header to its rank. A `q` that is not valid is ignored: 1 is used."""
    ranges: dict[str, Rank] = {}
    for number, part in enumerate(accept.lower().split(",")):
        media_range, *parameters = (text.strip() for text in part.split(";"))
        qualities = [match[1] for match in map(QUALITY.fullmatch, parameters) if match]
        if media_range:
            ranges.setdefault(media_range, Rank(float(qualities[0]) if qualities else 1.0, -number))
    return ranges


def _find_rank(ranges: dict[str, Rank], media_type: str) -> Rank:
    """Return the rank of the most specific range that includes the type; its quality is 0 if there is no such range."""
    names = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((ranges[name] for name in names if name in ranges), Rank(0.0, 0))
