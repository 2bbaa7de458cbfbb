"""Test which Host headers name this server."""

import pytest

from drydock.api.http.own_hosts import OwnHosts, parse_host_names
from drydock.errors import InvalidSetting

OWN = OwnHosts(["Drydock", "s3.internal.example"])


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:5005", "127.0.0.1", "192.168.1.7:80", "[::1]:5005", "[::1]", "0.0.0.0:5005"),
        *("localhost:5005", "LOCALHOST", "localhost.", "bucket.localhost:5005", "a.bucket.localhost"),
        *("drydock:5005", "DRYDOCK", "bucket.drydock:5005", "s3.internal.example", "bucket.s3.internal.example:9"),
        *("bucket.s3.amazonaws.com", "bucket.s3.us-east-1.amazonaws.com:80", "api.sagemaker.us-east-1.amazonaws.com"),
        "",  # no browser leaves the header out
    ],
)
def test_own_hosts_are_included(host: str) -> None:
    assert OWN.includes(host)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:5005", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost"),
        *("notdrydock", "drydock.evil.example", "internal.example", "amazonaws.com.evil.example", "evilamazonaws.com"),
        *("127.0.0.1,evil.example", "127.0.0.1@evil.example", "evil.example#127.0.0.1", "127.0.0.1:5005:1", "[::1"),
        *(
            "localhost evil.example",
            "evil.example/localhost",
            " ",
            "localhost:port",
            "1.2.3",
            "\u2460.localhost.example",
        ),
    ],
)
def test_foreign_hosts_are_not_included(host: str) -> None:
    assert not OWN.includes(host)


def test_names_are_a_list_separated_by_commas() -> None:
    assert parse_host_names(" drydock, s3.example ,") == ["drydock", "s3.example"] and parse_host_names("") == []


@pytest.mark.parametrize("text", ["drydock:5005", "http://drydock", "*", "a b", ".example", "a..b"])
def test_wrong_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="--own-hosts"):
        parse_host_names(text)
