"""Errors of the page."""


class MissingDocumentError(Exception):
    """A document does not exist or cannot be read. The text is for the visitor."""
