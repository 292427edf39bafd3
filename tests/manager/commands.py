"""Commands on a root, and checksums that tell what they changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from click.testing import CliRunner, Result

from tidelog.cli.app import app


def sums(root: Path, *but: str) -> dict[str, str]:
    """A checksum of every file; `.lock` says nothing."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and name != ".lock" and not name.startswith(but):
            found[name] = hashlib.md5(path.read_bytes()).hexdigest()
    return found


def command(*args: str) -> Result:
    """Run a command, here."""
    return CliRunner().invoke(app, list(args))


def on(root: Path, args: list[str]) -> Result:
    """Run a command on a root."""
    lines = root.parent / "lines"
    lines.write_text("line\n")
    properties, second = root.parent / "server.properties", root.parent / "second"
    properties.write_text("log.retention.ms=1\n")
    second.mkdir(exist_ok=True)
    words = {"ROOT": root, "LINES": lines, "PROPERTIES": properties, "SECOND": second}
    for word, path in words.items():
        args = [part.replace(word, str(path)) for part in args]
    return command(*args)
