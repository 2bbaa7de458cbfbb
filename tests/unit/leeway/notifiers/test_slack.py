"""Test the Slack message: it keeps Slack's limits, and data can neither mention people nor hide a link."""

from leeway.notifiers import slack
from leeway.notifiers.message import MAX_LINES, Message


def list_texts(message: Message) -> list[str]:
    """List the texts of the blocks of a message."""
    return [block["text"]["text"] for block in slack.render_blocks(message)]


def test_title_facts_lines_and_links_have_a_block_each():
    message = Message.create("flights has drifted", {"model": "flights"}, ["wind"], {"Page": "https://docs/d?a=1&b=2"})
    assert [block["type"] for block in slack.render_blocks(message)] == ["header", "section", "section", "section"]
    assert list_texts(message) == [
        "flights has drifted",
        "model: flights",
        "• wind",
        "<https://docs/d?a=1&amp;b=2|Page>",
    ]


def test_data_mentions_nobody_hides_no_link_and_is_not_formatted():
    message = Message.create(
        "*t*", {"model": "<!channel> ~_*x*_~"}, ["<https://evil|the `report`>"], {"Page": "file:///_a_"}
    )
    assert {block["text"]["type"] for block in slack.render_blocks(message)} == {"plain_text"}, (
        "Slack shows plain text unchanged"
    )
    assert list_texts(message)[1] == "model: <!channel> ~_*x*_~"


def test_address_is_escaped():
    message = Message.create("t", {}, [], {"Page": "https://d/<a|b>"})
    assert slack.render_blocks(message)[1]["text"]["type"] == "mrkdwn"
    assert list_texts(message)[1:] == ["<https://d/&lt;a%7Cb&gt;|Page>"]


def test_address_outside_the_web_is_text():
    assert list_texts(Message.create("t", {}, [], {"Page": "file:///docs/d.html"}))[1] == "Page: file:///docs/d.html"


def test_huge_text_keeps_the_limits_of_slack():
    message = Message.create("&" * 5_000, {str(n): "&" * 5_000 for n in range(5)}, ["&" * 5_000] * 50, {})
    texts = list_texts(message)
    assert len(texts[0]) <= 150
    assert max(map(len, texts)) <= 3_000
    assert len(message.lines) == MAX_LINES + 1
