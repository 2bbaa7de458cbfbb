"""Send a message to Slack."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Connection

from leeway.notifiers.message import Message, is_web

MOST = 3_000
"""Most characters that Slack accepts in a section."""


def send(message: Message, connection: Connection) -> str:
    """Send the message; return where to.

    Raises:
        Exception: Slack does not answer, or refuses.
    """
    from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook

    hook = SlackWebhookHook(slack_webhook_conn_id=connection.conn_id)
    hook.send(text=_escape(message.title), blocks=render_blocks(message), unfurl_links=False)
    return "Slack"


def render_blocks(message: Message) -> list[dict[str, Any]]:
    """Render the message as blocks; of the text that comes from data, only links' addresses are markup."""
    facts = "\n".join(f"{name}: {value}" for name, value in message.facts.items())
    lines = "\n".join(f"• {line}" for line in message.lines)
    files = "\n".join(f"{label}: {address}" for label, address in message.links.items() if not is_web(address))
    links = "  ·  ".join(_render_link(label, address) for label, address in message.links.items() if is_web(address))
    sections = [
        *map(_build_plain_text, filter(None, (facts, lines, files))),
        *map(_build_markdown_text, filter(None, [links])),
    ]
    title = {"type": "header", "text": _build_plain_text(message.title)}
    return [title, *({"type": "section", "text": text} for text in sections)]


def _build_plain_text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:MOST], "emoji": False}


def _build_markdown_text(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text[:MOST], "verbatim": True}


def _render_link(label: str, address: str) -> str:
    return f"<{_escape(address).replace('|', '%7C')}|{label}>"


def _escape(text: str) -> str:
    """Escape the text as Slack requires, so that <!channel> and <url|label> are only text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
