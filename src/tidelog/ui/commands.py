"""The `tidelog` commands that show the same in a terminal, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tidelog.ui.query import RecordQuery

__all__ = ["join_words", "quote", "record_commands", "search_command"]


def quote(word: str) -> str:
    """A word for bash, zsh or ksh; what is not printable is escaped, so that it does nothing when pasted."""
    if word.isprintable():
        return shlex.quote(word)
    shown = "".join(_escaped(one) for one in word)
    return f"$'{shown}'"


def _escaped(one: str) -> str:
    if one in "\\'":
        return f"\\{one}"
    if one.isprintable():
        return one
    return "".join(f"\\x{byte:02x}" for byte in one.encode("utf-8", "surrogateescape"))


def join_words(words: Sequence[str]) -> str:
    """Words as a command line."""
    return " ".join(map(quote, words))


def search_command(path: str, query: RecordQuery, *, skip_damage: bool) -> str:
    """The command for a page of records of the partition at `path`."""
    wanted = query.wanted
    name = "cat" if wanted.is_empty or query.from_end else "search"
    options: list[str] = []
    for option, value in (
        ("--offset", query.offset),
        ("--since", query.since),
        ("--to-offset", query.to_offset),
        ("--until", query.until),
        ("--key", wanted.key),
        ("--key-match", wanted.key_match),
        ("--contains", wanted.value_contains),
        ("--match", wanted.value_match),
        ("--header", wanted.header),
        ("--last" if query.from_end else "--limit", query.limit),
    ):
        if value is not None:
            text = str(value)
            options += [f"{option}={text}"] if text.startswith("-") else [option, text]
    options += ["--tombstones"] if wanted.tombstones else []
    options += ["--committed"] if query.committed else []
    options += ["--corrupt", "skip"] if skip_damage else []
    return join_words(["tidelog", name, path, *options, "--json"])


def record_commands(
    path: str, log_name: str, offset: int, decoders: Sequence[str], schema: Path | None = None
) -> list[str]:
    """The commands for one record, and for the batch and the partition that it lies in."""
    one = ["tidelog", "cat", path, "--offset", str(offset), "--to-offset", str(offset + 1)]
    lines = [[*one, "--json"], [*one, "--format", "hex", "--show", "offset,timestamp,key"]]
    for name in decoders:
        with_schema = ["--avro-schema", str(schema)] if name == "avro" else []
        lines.append([*one, "--decode", name, *with_schema, "--json"])
    lines += [["tidelog", "dump", f"{path}/{log_name}", "--json"]] if log_name else []
    lines += [["tidelog", "describe", path], ["tidelog", "verify", path]]
    return [join_words(line) for line in lines]
