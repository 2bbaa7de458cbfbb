"""Cache what botocore reads from its JSON models. Each session would list and parse megabytes of them.

The forking server loads this file by its path, because the project is not on the server's sys.path.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from botocore.loaders import JSONFileLoader, Loader
from botocore.session import Session

SERVICES = ("s3", "sagemaker", "sagemaker-runtime", "sts", "logs", "cloudwatch", "application-autoscaling")


@contextmanager
def cache_aws_models() -> Iterator[None]:
    """Let all sessions of this process share the models, and the list of services, while the block runs."""
    parse, list_services = JSONFileLoader.load_file, Loader.list_available_services
    parse_once = functools.cache(lambda path: parse(JSONFileLoader(), path))
    services: dict[tuple[str, ...], list[str]] = {}

    def list_once(loader: Loader, type_name: str) -> list[str]:
        key = (type_name, *loader.search_paths)
        if key not in services:
            services[key] = list_services(loader, type_name)
        return services[key]

    with (
        patch.object(JSONFileLoader, "load_file", lambda _, path: parse_once(path)),
        patch.object(Loader, "list_available_services", list_once),
    ):
        yield


def read_aws_models() -> None:
    """Read the models of the services that the product uses, so that they are in the cache."""
    loader = Session().get_component("data_loader")
    for service in SERVICES:
        for type_name in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, type_name)
    for name in ("endpoints", "partitions", "sdk-default-configuration"):
        loader.load_data(name)
