"""Send a message as a mail of plain text and HTML. Linked pages in LEEWAY_HOME/docs are attached."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from airflow.sdk import Connection

from leeway.notifiers.message import Message, is_web_address
from pipelines.escaping import escape
from pipelines.settings import settings

MAX_ATTACHED_BYTES = 5_000_000
"""Maximum size of an attached page, bytes: mail servers refuse much larger mails. Most pages are ten times smaller."""
POLICY = SMTP.clone(cte_type="7bit")
"""Encodes mails in 7 bits: every mail server accepts this, even one without the extension 8BITMIME."""


def send(message: Message, connection: Connection) -> str:
    """Send the message by mail.

    Args:
        message: the message.
        connection: connection of the mail server; its extra has `to`, and may have `from_email` and `auth_type`.

    Returns:
        The recipients, for the log; those that the server refused are marked. Empty if the extra has no `to`, so that
        no mail is sent.

    Raises:
        Exception: the server does not answer, or refuses the mail.
    """
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    extra = connection.extra_dejson
    if not extra.get("to"):
        return ""
    mail = build_mail(message, str(extra["to"]), str(extra.get("from_email", "")), connection.conn_id)
    with SmtpHook(smtp_conn_id=connection.conn_id, auth_type=extra.get("auth_type", "basic")) as smtp:
        # The hook's own method (provider 3.2.0) sends HTML without plain text.
        refusals = smtp._smtp_client.send_message(mail)
    addresses = [address.addr_spec for address in mail["To"].addresses]
    return ", ".join(f"{address} (refused)" if address in refusals else address for address in addresses)


def build_mail(message: Message, to: str, sender: str, conn_id: str) -> EmailMessage:
    """Build a mail of plain text and HTML. Attach the linked pages in LEEWAY_HOME/docs that are not too large.

    Args:
        message: the message.
        to: addresses, separated by commas or semicolons.
        sender: address of the sender; if empty, the address of the first recipient.
        conn_id: connection of the mail server. The mail's last line names it.
    """
    mail = EmailMessage(POLICY)
    mail["Subject"], mail["To"] = f"[Leeway] {message.title}", to.replace(";", ",")
    mail["From"] = sender or mail["To"].addresses[0].addr_spec
    mail.set_content(render_text(message))
    mail.add_alternative(render_html(message, conn_id), subtype="html")
    for page in _list_pages(message):
        mail.add_attachment(page.read_bytes(), "text", "html", filename=page.name)
    return mail


def render_text(message: Message) -> str:
    """Render the message as plain text."""
    facts = [f"{name}: {value}" for name, value in message.facts.items()]
    lines = [f"- {line}" for line in message.lines]
    links = [f"{label}: {address}" for label, address in message.links.items()]
    return "\n\n".join("\n".join(part) for part in ([message.title], facts, lines, links) if part) + "\n"


def render_html(message: Message, conn_id: str) -> str:
    """Render the message as an HTML page; all text that comes from data is escaped."""
    from jinja2 import Environment

    template = Path(__file__).with_name("mail.html").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True, finalize=lambda value: escape(value) if type(value) is str else value)
        .from_string(template)
        .render(message=message, conn_id=conn_id, is_web_address=is_web_address)
    )


def _list_pages(message: Message) -> Iterator[Path]:
    """Yield the linked files in LEEWAY_HOME/docs that are not too large; a link to any other file is ignored."""
    docs = (settings().home / "docs").resolve()
    for address in message.links.values():
        url = urlsplit(address)
        page = Path(url2pathname(url.path)).resolve()
        is_page = url.scheme == "file" and page.is_relative_to(docs) and page.is_file()
        if is_page and page.stat().st_size <= MAX_ATTACHED_BYTES:
            yield page
