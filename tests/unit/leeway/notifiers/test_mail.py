"""The mail: plain text, HTML that only shows what came from data, and the page where no link leads to it."""

from email import message_from_bytes
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path

import pytest
from leeway.notifiers import mail
from leeway.notifiers.message import Message

HOSTILE = "<script>alert(1)</script> {{ conn.smtp_default.password }} <img src=x onerror=y> ëü"


class Tags(HTMLParser):
    """The names of a page's tags, and where its links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]


def message(**links: str) -> Message:
    return Message.create(f"drift {HOSTILE}", {"model": HOSTILE}, [HOSTILE], links)


def sent(message: Message, to: str = "crew@example.com", sender: str = "leeway@example.com"):
    return message_from_bytes(mail.build_mail(message, to, sender, "smtp_default").as_bytes(), policy=default)


def test_text_and_html_say_the_same():
    told = sent(message(Report="https://docs/r.html?a=1&b=2"))
    plain, page = told.get_body(("plain",)), told.get_body(("html",))
    assert HOSTILE in plain.get_content() and "Report: https://docs/r.html?a=1&b=2" in plain.get_content()
    assert "&lt;script&gt;" in page.get_content() and "{{ conn.smtp_default.password }}" in page.get_content()
    assert told["Subject"].startswith("[Leeway] drift <script>")


def test_nothing_of_the_data_becomes_markup():
    page = Tags(mail.render_html(message(Report="https://docs/r.html"), "smtp_default"))
    assert not page.tags & {"script", "img"}
    assert page.links == ["https://docs/r.html"]


def test_only_addresses_of_the_web_are_links():
    assert Tags(mail.render_html(message(Report="javascript:alert(1)", Log="file:///x"), "c")).links == []


def test_title_cannot_add_a_header():
    assert sent(Message.create("a\r\nBcc: all@example.com", {}))["Bcc"] is None


def test_several_are_told_and_the_first_sends_where_nobody_is_named_for_that():
    told = sent(message(), to="a@example.com; b@example.com", sender="")
    assert [one.addr_spec for one in told["To"].addresses] == ["a@example.com", "b@example.com"]
    assert told["From"] == "a@example.com"


@pytest.fixture
def docs(home: Path) -> Path:
    """The data docs of this machine."""
    (home / "docs" / "models").mkdir(parents=True)
    return home / "docs"


def test_page_of_this_machine_is_attached(docs: Path):
    page = docs / "models" / "a report.html"
    page.write_text("<p>the report</p>")
    attached = list(sent(message(Report=page.as_uri())).iter_attachments())
    assert [(one.get_filename(), one.get_content().strip()) for one in attached] == [
        ("a report.html", "<p>the report</p>")
    ]


@pytest.mark.parametrize("bytes_", [None, mail.MAX_ATTACHED_BYTES + 1])
def test_page_that_is_not_there_or_too_big_is_not(docs: Path, bytes_: int | None):
    page = docs / "report.html"
    if bytes_:
        page.write_bytes(b"x" * bytes_)
    assert list(sent(message(Report=page.as_uri())).iter_attachments()) == []


@pytest.mark.parametrize("way", ["beside", "../airflow.cfg", "link"])
def test_file_that_is_no_page_of_the_docs_is_not(docs: Path, way: str):
    other = docs.parent / "airflow.cfg"
    other.write_text("[core] fernet_key = x")
    (docs / "link").symlink_to(other)
    address = other.as_uri() if way == "beside" else f"{docs.as_uri()}/{way}"
    assert list(sent(message(Report=address)).iter_attachments()) == []


def test_page_that_is_served_is_linked_and_not_attached():
    assert list(sent(message(Report="https://docs/r.html")).iter_attachments()) == []
