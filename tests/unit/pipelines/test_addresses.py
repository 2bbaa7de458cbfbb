"""Test which addresses of services are accepted."""

import pytest

from pipelines.addresses import check_http_address, check_mlflow_address

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:mlflow-tracking-server/mine"
DATABASES = ("sqlite://", "postgresql://u:p/q@host:5432/x", "postgresql:///x?host=/run", "mysql://u:p@host")
MALFORMED = [
    *("notaurl", "localhost:5000", "ftp://host/x", "http://", "http:///x", "://", "http:host", "/var/mlruns"),
    *("http://host:8080extra", "http://host:99999", "http://host:0", "http://host:-1", "http://host:", "http://[::1"),
    *("postgresql+psycopg://u:p@host:80x/x", "mysql://host:0/x", "arn:aws:sagemaker:x", "arn:", "arn:aws:s3:::bucket"),
    *("http://a b", "http://ho\nst", " http://host", "http://host ", "file:///var/mlruns", "s3://bucket/x"),
]


@pytest.mark.parametrize("check", [check_http_address, check_mlflow_address])
@pytest.mark.parametrize("address", MALFORMED)
def test_refuses_a_malformed_address(check: object, address: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        check(address)


@pytest.mark.parametrize(
    "address",
    ["", "http://host", "https://host:8443/path", "http://127.0.0.1:5000", "http://[::1]:80/x", "http://u:p@host:1/"],
)
def test_accepts_an_http_address_or_none(address: str) -> None:
    assert check_http_address(address) == check_mlflow_address(address) == address


@pytest.mark.parametrize(
    "address",
    ["sqlite:///x.db", "postgresql+psycopg2://u:p@host/x", "databricks", "databricks://profile", ARN, *DATABASES],
)
def test_accepts_the_other_stores_of_mlflow(address: str) -> None:
    assert check_mlflow_address(address) == address
    with pytest.raises(ValueError):  # noqa: PT011
        check_http_address(address)
