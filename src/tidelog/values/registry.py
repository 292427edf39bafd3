"""Schemas of a registry, through confluent-kafka's client: authentication, retries and caching are its own.

A schema id that the registry does not have is unknown. A registry that does not answer is an error, and so is
a server that is no registry and answers 404: the values may be sound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.errors import InvalidInputError, MissingLibraryError, SchemaRegistryError
from tidelog.values.schemas import AVRO, Schema

__all__ = ["RegistrySchemas"]

_UNKNOWN = range(40_401, 40_500)
"""A registry's own codes for "no such subject, version or schema". Others that answer 404 are no registry."""
_MOST_REFERENCES = 1000

T = TypeVar("T")
_NUMBERS = (
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "timeout",
)
"""Options that its client takes as numbers."""


class RegistrySchemas:
    """The schemas of a registry; `options` go to its client. Picklable."""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self.url = url
        self._options = options
        self._known: dict[int, Schema] = {}
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the client."""
        return {"url": self.url, "_options": self._options, "_known": self._known, "_client": None}

    def by_id(self, number: int) -> Schema | None:
        """The schema of an id."""
        if number not in self._known:
            found = self._ask(lambda client: client.get_schema(number))
            if found is None:
                return None
            self._known[number] = self._schema(found, number)
        return self._known[number]

    def versions(self, subject: str) -> list[Schema]:
        """The versions of a subject, oldest first."""
        numbers = self._ask(lambda client: client.get_versions(subject)) or []
        found = []
        for number in sorted(numbers):
            version = self._version(subject, number)
            if version is not None:
                schema = self._schema(version.schema, version.schema_id)
                self._known[schema.id] = schema
                found.append(schema)
        return found

    def beside(self, number: int) -> list[Schema]:
        """The versions of the subjects that have the schema; none where a registry does not tell them."""
        try:
            subjects = self._ask(lambda client: client.get_subjects_by_schema_id(number))
        except SchemaRegistryError:
            return []
        named = subjects if isinstance(subjects, list) else []
        return [one for subject in named if isinstance(subject, str) for one in self.versions(subject)]

    def _schema(self, found: Any, number: int) -> Schema:
        text = self._text(found)
        return Schema(found.schema_type or AVRO, text, number, tuple(self._references(found).items()))

    def _text(self, schema: Any) -> str:
        """The text of a schema; the client takes answers without one."""
        text = schema.schema_str
        if not isinstance(text, str):
            raise SchemaRegistryError(f"{self.url} answers without a schema: {text!r:.80}; check the URL")
        return text

    def _references(self, schema: Any) -> dict[str, str]:
        """The texts of what a schema refers to, and so on, by name."""
        texts: dict[str, str] = {}
        waiting = list(schema.references or ())
        while waiting:
            one = waiting.pop()
            if one.name in texts:
                continue
            if len(texts) >= _MOST_REFERENCES:
                raise SchemaRegistryError(
                    f"{self.url}: a schema with more than {_MOST_REFERENCES} references"
                )
            found = self._version(one.subject, one.version)
            if found is None:
                raise SchemaRegistryError(
                    f"{self.url} has no version {one.version} of {one.subject}, which a schema refers to"
                )
            texts[one.name] = self._text(found.schema)
            waiting += found.schema.references or ()
        return texts

    def _version(self, subject: str, number: int) -> Any:
        return self._ask(lambda client: client.get_version(subject, number))

    def _ask(self, question: Callable[[Any], T]) -> T | None:
        """The answer; None if there is no such thing."""
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.error import SchemaRegistryError as ClientError
        except ImportError as error:
            raise MissingLibraryError(
                f"{self.url} needs confluent-kafka's client ({error.name} is missing): "
                "pip install 'tidelog[registry]'"
            ) from None
        if self._client is None:
            try:
                self._client = SchemaRegistryClient({"url": self.url, **_settings(self._options)})
            except (ValueError, TypeError) as error:
                raise InvalidInputError(f"options of the registry {self.url}: {error}") from None
        try:
            return question(self._client)
        except ClientError as error:
            if error.error_code in _UNKNOWN:
                return None
            raise SchemaRegistryError(f"{self.url}: {error}") from error
        except Exception as error:  # whatever its HTTP client raises
            raise SchemaRegistryError(
                f"{self.url} does not answer: {error or type(error).__name__}; "
                "check the URL and the options, and try again"
            ) from error


def _settings(options: dict[str, str]) -> dict[str, Any]:
    """Options as the client takes them."""
    return {name: int(value) if name in _NUMBERS else value for name, value in options.items()}
