"""A message as a mail: plain text, HTML, and the page with the evidence where no link leads to it."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from airflow.sdk import Connection

from leeway.notifiers.message import Message, is_web
from pipelines.settings import settings

MAX_ATTACHED_BYTES = 5_000_000
"""Mail servers refuse mails of much more; a page is a tenth of it."""
POLICY = SMTP.clone(cte_type="7bit")
"""Any server takes it, also one without 8BITMIME."""


def send(message: Message, connection: Connection) -> str:
    """The mail is with the server; tells for whom it took it. Empty, and nothing sent, where the extra names nobody.

    Raises:
        Exception: the server is not there, or does not take it.
    """
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    extra = connection.extra_dejson
    if not extra.get("to"):
        return ""
    mail = mail_of(message, str(extra["to"]), str(extra.get("from_email", "")), connection.conn_id)
    with SmtpHook(smtp_conn_id=connection.conn_id, auth_type=extra.get("auth_type", "basic")) as smtp:
        # The hook's own way of sending (3.2.0) has no plain text beside the HTML.
        refused = smtp._smtp_client.send_message(mail)
    everyone = [one.addr_spec for one in mail["To"].addresses]
    return ", ".join(f"{one} (refused)" if one in refused else one for one in everyone)


def mail_of(message: Message, to: str, sender: str, conn_id: str) -> EmailMessage:
    """The mail."""
    mail = EmailMessage(POLICY)
    mail["Subject"], mail["To"] = f"[Leeway] {message.title}", to.replace(";", ",")
    mail["From"] = sender or mail["To"].addresses[0].addr_spec
    mail.set_content(text(message))
    mail.add_alternative(html(message, conn_id), subtype="html")
    for page in _pages(message):
        mail.add_attachment(page.read_bytes(), "text", "html", filename=page.name)
    return mail


def text(message: Message) -> str:
    """The message as plain text."""
    facts = [f"{name}: {value}" for name, value in message.facts.items()]
    lines = [f"- {line}" for line in message.lines]
    links = [f"{label}: {address}" for label, address in message.links.items()]
    return "\n\n".join("\n".join(part) for part in ([message.title], facts, lines, links) if part) + "\n"


def html(message: Message, conn_id: str) -> str:
    """The message as a page; all that came from data is escaped."""
    from jinja2 import Environment

    template = Path(__file__).with_name("mail.html").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(template).render(message=message, conn_id=conn_id, is_web=is_web)


def _pages(message: Message) -> Iterator[Path]:
    """Self-contained pages that only this machine has: data docs, and no other file that a result may name."""
    docs = (settings().home / "docs").resolve()
    for address in message.links.values():
        parts = urlsplit(address)
        page = Path(url2pathname(parts.path)).resolve()
        ours = parts.scheme == "file" and page.is_relative_to(docs) and page.is_file()
        if ours and page.stat().st_size <= MAX_ATTACHED_BYTES:
            yield page
