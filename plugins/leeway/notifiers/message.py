"""A message for people: title, facts, lines and links of limited length, without secrets and control characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow.providers.common.compat.sdk import redact

from pipelines.escaping import escape

MAX_TITLE_CHARS = 120
"""Longest title, characters: Slack accepts 150, and a mail's subject should be short."""
MAX_LINE_CHARS = 400
"""Longest fact or line, characters. `MAX_LINES` of them have less than the 3,000 characters that Slack accepts in a
section."""
MAX_LINES = 6
"""Largest number of lines. If there are more, one further line says how many were omitted."""


@dataclass(frozen=True)
class Message:
    """A message for people about one event."""

    title: str
    """What happened, in one line."""
    facts: Mapping[str, str]
    """Values of the facts, by name."""
    lines: tuple[str, ...] = ()
    """Reasons and next steps, one line each."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the links, by label; the page about the result is first."""

    @classmethod
    def create(
        cls,
        title: str,
        facts: Mapping[str, object],
        lines: Iterable[object] = (),
        links: Mapping[str, str] | None = None,
    ) -> Message:
        """Make a message within the limits; empty facts and links are left out."""
        shown_lines = [clean(line, MAX_LINE_CHARS) for line in lines]
        if len(shown_lines) > MAX_LINES:
            shown_lines[MAX_LINES:] = [f"and {len(shown_lines) - MAX_LINES} more"]
        return cls(
            title=clean(title, MAX_TITLE_CHARS),
            facts={
                clean(name, MAX_LINE_CHARS): clean(value, MAX_LINE_CHARS)
                for name, value in facts.items()
                if value not in (None, "")
            },
            lines=tuple(shown_lines),
        ).add_links(links or {})

    def add_links(self, links: Mapping[str, str]) -> Message:
        """Return the message with further links, label to address; links without an address are left out."""
        shown_links = {
            clean(label, MAX_LINE_CHARS): escape(mask_secrets(address)) for label, address in links.items() if address
        }
        return replace(self, links={**self.links, **shown_links})


def clean(value: object, max_chars: int) -> str:
    """Return the value as one line of at most `max_chars` characters, escaped and without secrets."""
    # Secrets are masked before the text is cut, because a part of a secret would not be recognised.
    text = escape(mask_secrets(value).strip())
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def mask_secrets(value: object) -> str:
    """Return the value as text. Secrets are masked, as Airflow masks them in logs."""
    return str(redact(str(value)))


def is_web_address(address: str) -> bool:
    """Return whether other machines can open the address; the address of a file works on this machine only."""
    return address.startswith(("https://", "http://"))
