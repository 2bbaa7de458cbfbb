"""What people are told: a title, facts, lines; without secrets or what mail and Slack take for more than text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow.providers.common.compat.sdk import redact

TITLE = 120
"""Most characters of a title: Slack takes 150, and a subject should be read at a glance."""
LINE = 400
"""Most characters of a fact or a line: so many lines stay below the 3,000 that Slack takes of a section."""
LINES = 6
"""Most lines; those beyond are counted."""


@dataclass(frozen=True)
class Message:
    """One event, for people."""

    title: str
    """What happened, in a line."""
    facts: Mapping[str, str]
    """What it is about, by name."""
    lines: tuple[str, ...] = ()
    """Why, a line each."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Address by label, the page with the evidence first."""

    @classmethod
    def of(
        cls,
        title: str,
        facts: Mapping[str, object],
        lines: Iterable[object] = (),
        links: Mapping[str, str] | None = None,
    ) -> Message:
        """A message within the bounds; facts and links that are empty are left out."""
        told = [clean(one, LINE) for one in lines]
        more = [f"and {len(told) - LINES} more"] * (len(told) > LINES)
        return cls(
            title=clean(title, TITLE),
            facts={name: clean(value, LINE) for name, value in facts.items() if value not in (None, "")},
            lines=(*told[:LINES], *more),
            links={name: masked(address) for name, address in (links or {}).items() if address},
        )


def clean(value: object, most: int) -> str:
    """One line without secrets: no breaks, which headers must not have, no marks that turn the reading direction."""
    # Masked before it is cut: nobody knows half a secret for one.
    text = "".join(sign for sign in " ".join(masked(value).split()) if sign.isprintable())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def masked(value: object) -> str:
    """The text without the secrets that Airflow's logs do not show either: more people read mails than logs."""
    return str(redact(str(value)))


def is_web(address: str) -> bool:
    """Whether somebody elsewhere can open it: a file's address is for who sits at that machine."""
    return address.startswith(("https://", "http://"))
