"""Test the mail: plain text, HTML without markup from data, and local pages as attachments."""

from email import message_from_bytes
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path

import pytest
from leeway.notifiers import mail
from leeway.notifiers.message import Message

HOSTILE = "<script>alert(1)</script> {{ conn.smtp_default.password }} <img src=x onerror=y> ëü"


class Tags(HTMLParser):
    """Collect the tags and the link addresses of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href"]


def make_message(**links: str) -> Message:
    """Return a message with hostile text in all its parts."""
    return Message.create(f"drift {HOSTILE}", {"model": HOSTILE}, [HOSTILE], links)


def build_mail(message: Message, to: str = "crew@example.com", sender: str = "leeway@example.com"):
    """Build the mail of a message, and parse its bytes."""
    return message_from_bytes(mail.build_mail(message, to, sender, "smtp_default").as_bytes(), policy=default)


def test_text_and_html_have_the_same_content():
    parsed = build_mail(make_message(Report="https://docs/r.html?a=1&b=2"))
    plain, page = parsed.get_body(("plain",)), parsed.get_body(("html",))
    assert HOSTILE in plain.get_content() and "Report: https://docs/r.html?a=1&b=2" in plain.get_content()
    assert "&lt;script&gt;" in page.get_content() and "{{ conn.smtp_default.password }}" in page.get_content()
    assert parsed["Subject"].startswith("[Leeway] drift <script>")


def test_data_does_not_become_markup():
    page = Tags(mail.render_html(make_message(Report="https://docs/r.html"), "smtp_default"))
    assert not page.tags & {"script", "img"}
    assert page.links == ["https://docs/r.html"]


def test_only_web_addresses_become_links():
    assert Tags(mail.render_html(make_message(Report="javascript:alert(1)", Log="file:///x"), "c")).links == []


def test_title_cannot_add_a_header():
    assert build_mail(Message.create("a\r\nBcc: all@example.com", {}))["Bcc"] is None


def test_first_of_several_recipients_is_the_default_sender():
    parsed = build_mail(make_message(), to="a@example.com; b@example.com", sender="")
    assert [address.addr_spec for address in parsed["To"].addresses] == ["a@example.com", "b@example.com"]
    assert parsed["From"] == "a@example.com"


@pytest.fixture
def docs(home: Path) -> Path:
    """Return the folder of the data docs."""
    (home / "docs" / "models").mkdir(parents=True)
    return home / "docs"


def test_local_page_is_attached(docs: Path):
    page = docs / "models" / "a report.html"
    page.write_text("<p>the report</p>")
    attachments = list(build_mail(make_message(Report=page.as_uri())).iter_attachments())
    assert [(part.get_filename(), part.get_content().strip()) for part in attachments] == [
        ("a report.html", "<p>the report</p>")
    ]


@pytest.mark.parametrize("size", [None, mail.MAX_ATTACHED_BYTES + 1])
def test_missing_or_too_large_page_is_not_attached(docs: Path, size: int | None):
    page = docs / "report.html"
    if size:
        page.write_bytes(b"x" * size)
    assert list(build_mail(make_message(Report=page.as_uri())).iter_attachments()) == []


@pytest.mark.parametrize("path", ["outside", "../airflow.cfg", "link"])
def test_file_outside_the_docs_is_not_attached(docs: Path, path: str):
    secret_file = docs.parent / "airflow.cfg"
    secret_file.write_text("[core] fernet_key = x")
    (docs / "link").symlink_to(secret_file)
    address = secret_file.as_uri() if path == "outside" else f"{docs.as_uri()}/{path}"
    assert list(build_mail(make_message(Report=address)).iter_attachments()) == []


def test_page_with_a_web_address_is_not_attached():
    assert list(build_mail(make_message(Report="https://docs/r.html")).iter_attachments()) == []
