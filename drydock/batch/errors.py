"""The error with which drydock's AWS Batch refuses a request."""

from typing import NoReturn

from moto.core.exceptions import JsonRESTError


class ClientException(JsonRESTError):
    """A request that AWS Batch refuses, with status 400. moto serialises it. A retry cannot help.

    moto.batch has such a class, too, but its import also loads EC2 and ECS.

    Args:
        message: What is wrong.
    """

    code = 400

    def __init__(self, message: str) -> None:
        super().__init__("ClientException", message)


def refuse(message: str) -> NoReturn:
    """Refuse a request.

    Raises:
        ClientException: Always.
    """
    raise ClientException(message)
