"""Send a message to Slack."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Connection

from leeway.notifiers.message import Message, is_web_address

MAX_SECTION_CHARS = 3_000
"""Number of characters that Slack accepts in a section. A longer text is cut."""


def send(message: Message, connection: Connection) -> str:
    """Send the message to the connection's webhook. Return "Slack", which the log names as the receiver.

    Raises:
        Exception: Slack does not answer (a retry can help), or refuses the message (a retry cannot help).
    """
    from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook

    hook = SlackWebhookHook(slack_webhook_conn_id=connection.conn_id)
    hook.send(text=_escape(message.title), blocks=render_blocks(message), unfurl_links=False)
    return "Slack"


def render_blocks(message: Message) -> list[dict[str, Any]]:
    """Render the message as blocks of Slack: a header, and a section each for facts, lines, files and links.

    Only the section of links is Markdown, since plain text has no links. The texts of the links are escaped.
    """
    facts = "\n".join(f"{name}: {value}" for name, value in message.facts.items())
    lines = "\n".join(f"• {line}" for line in message.lines)
    web_links = {label: address for label, address in message.links.items() if is_web_address(address)}
    files = "\n".join(f"{label}: {address}" for label, address in message.links.items() if label not in web_links)
    links = "  ·  ".join(_render_link(label, address) for label, address in web_links.items())
    texts = [
        *map(_build_plain_text, filter(None, (facts, lines, files))),
        *map(_build_markdown_text, filter(None, [links])),
    ]
    title = {"type": "header", "text": _build_plain_text(message.title)}
    return [title, *({"type": "section", "text": text} for text in texts)]


def _build_plain_text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:MAX_SECTION_CHARS], "emoji": False}


def _build_markdown_text(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text[:MAX_SECTION_CHARS], "verbatim": True}


def _render_link(label: str, address: str) -> str:
    # Slack's syntax of a link is <address|label>. So a `|` in the texts is replaced here, and a `>` by `_escape`.
    return f"<{_escape(address).replace('|', '%7C')}|{_escape(label).replace('|', '¦')}>"


def _escape(text: str) -> str:
    """Escape the text as Slack requires, so that <!channel> or <url|label> in the text has no effect."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
