"""Slack's blocks: within its bounds, and nothing that came from data calls people or hides a link."""

from leeway.notifiers import slack
from leeway.notifiers.message import LINES, Message


def parts(message: Message) -> list[str]:
    return [block["text"]["text"] for block in slack.render_blocks(message)]


def test_title_facts_lines_and_links_each_have_a_block():
    told = Message.create("flights has drifted", {"model": "flights"}, ["wind"], {"Page": "https://docs/d?a=1&b=2"})
    assert [block["type"] for block in slack.render_blocks(told)] == ["header", "section", "section", "section"]
    assert parts(told) == ["flights has drifted", "model: flights", "• wind", "<https://docs/d?a=1&amp;b=2|Page>"]


def test_data_calls_nobody_hides_no_link_and_is_not_formatted():
    told = Message.create(
        "*t*", {"model": "<!channel> ~_*x*_~"}, ["<https://evil|the `report`>"], {"Page": "file:///_a_"}
    )
    assert {block["text"]["type"] for block in slack.render_blocks(told)} == {"plain_text"}, "Slack shows it as it is"
    assert parts(told)[1] == "model: <!channel> ~_*x*_~"


def test_address_hides_nothing_either():
    told = Message.create("t", {}, [], {"Page": "https://d/<a|b>"})
    assert slack.render_blocks(told)[1]["text"]["type"] == "mrkdwn"
    assert parts(told)[1:] == ["<https://d/&lt;a%7Cb&gt;|Page>"]


def test_address_that_is_not_of_the_web_is_text():
    assert parts(Message.create("t", {}, [], {"Page": "file:///docs/d.html"}))[1] == "Page: file:///docs/d.html"


def test_huge_text_stays_within_what_slack_takes():
    huge = Message.create("&" * 5_000, {str(n): "&" * 5_000 for n in range(5)}, ["&" * 5_000] * 50, {})
    texts = parts(huge)
    assert len(texts[0]) <= 150
    assert max(map(len, texts)) <= 3_000
    assert len(huge.lines) == LINES + 1
