"""Send a message to Slack."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Connection

from leeway.notifiers.message import Message, is_web_address

MAX_SECTION_CHARS = 3_000
"""Longest text that Slack accepts in a section."""


def send(message: Message, connection: Connection) -> str:
    """Send the message; return the name of the receiver, for the log.

    Raises:
        Exception: Slack does not answer, or refuses the message.
    """
    from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook

    hook = SlackWebhookHook(slack_webhook_conn_id=connection.conn_id)
    hook.send(text=_escape(message.title), blocks=render_blocks(message), unfurl_links=False)
    return "Slack"


def render_blocks(message: Message) -> list[dict[str, Any]]:
    """Render the message as Slack's blocks. All text that comes from data is plain text, except addresses of links."""
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
    # `|` and `>` end parts of a link in Slack's syntax, so `|` in the texts is replaced, and `_escape` replaces `>`.
    return f"<{_escape(address).replace('|', '%7C')}|{_escape(label).replace('|', '¦')}>"


def _escape(text: str) -> str:
    """Escape the text as Slack requires, so that <!channel> or <url|label> in the text has no effect."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
