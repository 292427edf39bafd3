"""Where schemas come from: a directory of files, or a schema registry.

A directory, local or behind an fsspec URL, has files that end in `.avsc` (Avro), `.proto` (Protobuf) or
`.json` (JSON Schema):

    7.avsc                      the schema of id 7
    orders-value.avsc           the schema of subject orders-value
    orders-value/7.avsc         a version of the subject, with its id; ids grow with versions
    com.acme.Address.avsc       a named type that others refer to; a `.proto` is imported by its path

A directory is read whole when it is opened, so that tasks on other machines need not reach it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tidelog.errors import InvalidInputError
from tidelog.storage.remote import open_ro

__all__ = [
    "AVRO",
    "JSON",
    "PROTOBUF",
    "DirectorySchemas",
    "Schema",
    "SchemaSource",
    "open_schemas",
    "type_name",
    "usable",
]

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
"""What a registry calls the kinds of schemas."""

_ENDINGS = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
_MOST_BYTES = 16 << 20
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_MESSAGE = re.compile(r"^\s*message\s+(\w+)", re.MULTILINE)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was registered; `references` are the texts of what it refers to, by name."""

    kind: str
    text: str
    id: int = -1
    references: tuple[tuple[str, str], ...] = ()


class SchemaSource(Protocol):
    """Where schemas come from. Picklable."""

    def by_id(self, number: int) -> Schema | None:
        """The schema of an id; None if there is none."""

    def versions(self, subject: str) -> list[Schema]:
        """The versions of a subject, oldest first; none if there is no such subject."""

    def beside(self, number: int) -> list[Schema]:
        """Schemas with ids, among which are other versions of the one of an id."""


class DirectorySchemas:
    """Schemas in files, as `schemas` says."""

    def __init__(self, url: str, files: Mapping[str, str]) -> None:
        """`files` are their texts, by path."""
        self.url = url
        self._files = dict(files)

    def __repr__(self) -> str:
        """With its name."""
        return f"DirectorySchemas({self.url!r})"

    def by_id(self, number: int) -> Schema | None:
        """The schema of an id."""
        for name in sorted(self._files):
            if Path(name).stem == str(number):
                return self._schema(name)
        return None

    def versions(self, subject: str) -> list[Schema]:
        """The versions of a subject: those with ids, then the file of the subject's name."""
        ids = [name for name in self._files if name.rpartition("/")[0] == subject and _is_id(name)]
        found = [self._schema(name) for name in sorted(ids, key=lambda name: int(Path(name).stem))]
        found += [self._schema(f"{subject}{end}") for end in _ENDINGS if f"{subject}{end}" in self._files]
        return found

    def beside(self, number: int) -> list[Schema]:
        """All that have ids."""
        return [self._schema(name) for name in self._files if _is_id(name)]

    def _schema(self, name: str) -> Schema:
        path = Path(name)
        kind = _ENDINGS[path.suffix]
        references = tuple(
            (other if kind != AVRO else Path(other).stem, text)
            for other, text in self._files.items()
            if other != name and other.endswith(path.suffix) and not _is_id(other)
        )
        return Schema(kind, self._files[name], int(path.stem) if _is_id(name) else -1, references)


def _is_id(name: str) -> bool:
    stem = Path(name).stem
    return stem.isascii() and stem.isdigit()


def type_name(schema: Schema) -> str | None:
    """The full name of an Avro record, or of the first Protobuf message: versions of a type share it."""
    if schema.kind == PROTOBUF:
        package, message = _PACKAGE.search(schema.text), _MESSAGE.search(schema.text)
        return f"{package[1] if package else ''}.{message[1]}" if message else None
    try:
        found = json.loads(schema.text) if schema.kind == AVRO else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return None
    name = str(found["name"])
    return name if "." in name else f"{found.get('namespace') or ''}.{name}".lstrip(".")


def usable(schemas: Sequence[Schema], read: Callable[[Schema], _T], *, may_be_none: bool = False) -> list[_T]:
    """What is read of schemas, without those that cannot be used; InvalidInputError if that is none.

    A registry takes schemas that are of no use here. They concern the values that were written with them.
    """
    found, refused = [], None
    for one in schemas:
        try:
            found.append(read(one))
        except InvalidInputError as error:
            refused = error
    if refused is not None and not found and not may_be_none:
        raise refused
    return found


def open_schemas(where: str | Path, options: Mapping[str, str] | None = None) -> SchemaSource:
    """The schemas of a directory, or of a registry (`http://`, `https://`) with options of its client."""
    url = str(where)
    if url.startswith(("http://", "https://")):
        from tidelog.values.registry import RegistrySchemas

        return RegistrySchemas(url, dict(options or {}))
    if options:
        raise InvalidInputError("registry options mean something for http:// and https:// only")
    files = _remote_files(url) if "://" in url else _local_files(Path(where))
    if not files:
        raise InvalidInputError(f"{url} has no schema: files end in {', '.join(_ENDINGS)}")
    return DirectorySchemas(url, files)


def _local_files(root: Path) -> dict[str, str]:
    if not root.is_dir():
        raise InvalidInputError(f"{root} is neither a directory of schemas nor the URL of a registry")
    return {
        path.relative_to(root).as_posix(): _text(str(path), path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.suffix in _ENDINGS and path.is_file() and path.stat().st_size <= _MOST_BYTES
    }


def _remote_files(url: str) -> dict[str, str]:
    directory = open_ro(url)
    return {
        path: _text(path, directory.read_range(path, 0, size))
        for folder, names in directory.tree().items()
        for name, size in names.items()
        if Path(name).suffix in _ENDINGS and size <= _MOST_BYTES
        for path in [f"{folder}/{name}" if folder else name]
    }


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(f"{name} is not UTF-8") from None
