"""Message: a title, facts and lines for people, without secrets, and without what mail and Slack treat as markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow.providers.common.compat.sdk import redact

TITLE = 120
"""Most characters of a title: Slack accepts 150, and a mail's subject should be short."""
LINE = 400
"""Most characters of a fact or a line: `LINES` of them stay below the 3,000 that Slack accepts in a section."""
LINES = 6
"""Most lines; the others are counted."""


@dataclass(frozen=True)
class Message:
    """One event in words for people."""

    title: str
    """What happened, in a line."""
    facts: Mapping[str, str]
    """Facts, name to value."""
    lines: tuple[str, ...] = ()
    """Reasons, a line each."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Links, label to address, the report first."""

    @classmethod
    def create(
        cls,
        title: str,
        facts: Mapping[str, object],
        lines: Iterable[object] = (),
        links: Mapping[str, str] | None = None,
    ) -> Message:
        """Make a message within the limits; empty facts and links are left out."""
        cleaned = [clean(line, LINE) for line in lines]
        more = [f"and {len(cleaned) - LINES} more"] * (len(cleaned) > LINES)
        return cls(
            title=clean(title, TITLE),
            facts={name: clean(value, LINE) for name, value in facts.items() if value not in (None, "")},
            lines=(*cleaned[:LINES], *more),
            links={name: mask_secrets(address) for name, address in (links or {}).items() if address},
        )


def clean(value: object, most: int) -> str:
    """Return one line without secrets, without line breaks, and without marks that change the reading direction."""
    # Masked before it is cut: half of a secret is not recognised.
    text = "".join(sign for sign in " ".join(mask_secrets(value).split()) if sign.isprintable())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def mask_secrets(value: object) -> str:
    """Mask the secrets that Airflow's logs mask too."""
    return str(redact(str(value)))


def is_web(address: str) -> bool:
    """Return whether other machines can open the address; a file's address works on this one only."""
    return address.startswith(("https://", "http://"))
