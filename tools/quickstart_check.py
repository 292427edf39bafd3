"""Runs the README's first steps on the tidelog that is installed; any difference ends it with an error.

A codec whose package is not installed has to raise an error that names the package; the others work. No test
framework and nothing of the source tree: this is for blank environments (`make dist`, cibuildwheel).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

with warnings.catch_warnings(record=True) as WARNINGS:
    warnings.simplefilter("always")
    import tidelog
    from tidelog import Codec, Record
    from tidelog.errors import MissingLibraryError
    from tidelog.kernels import COMPILED

_RECORDS = 200
_PACKAGES = {Codec.LZ4: "lz4", Codec.ZSTD: "zstandard"}
_MISSING = {codec for codec, package in _PACKAGES.items() if importlib.util.find_spec(package) is None}


def append(store: tidelog.Store, codec: Codec) -> None:
    """Append records with this codec to a new topic and read them; without its package, be refused."""
    topic = store.create_topic(f"orders-{codec.label}", partitions=1)
    records = [Record(b"value %d" % n, key=b"key %d" % n) for n in range(_RECORDS)]
    if codec in _MISSING:
        refusal = ""
        try:
            topic[0].append(records, codec=codec)
        except MissingLibraryError as error:
            refusal = str(error)
        assert f"{codec.label} needs the package" in refusal, refusal
        return
    topic[0].append(records, codec=codec)
    assert [record.value for record in topic[0]] == [record.value for record in records]


def run_command(told: int, scratch: Path, data: Path) -> None:
    """The commands of the quick start, as they are installed."""
    command = Path(sys.executable).with_name("tidelog")
    page = scratch / "report.html"
    first = data / "orders-none-0"
    for words in (
        ["ls", data],
        ["cat", first],
        ["verify", data],
        ["report", data, "-o", page],
        ["--version"],
    ):
        done = subprocess.run(
            [command, *map(str, words)], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() or words[-1] == page, words
        assert done.stderr.count("kernels are not compiled") <= told, done.stderr
    assert "orders-none" in page.read_text()


def main() -> int:
    """0, or an error."""
    told = [str(each.message) for each in WARNINGS if "kernels are not compiled" in str(each.message)]
    assert len(told) == (0 if COMPILED else 1), told
    with tempfile.TemporaryDirectory(prefix="tidelog-quickstart-") as scratch:
        data = Path(scratch) / "data"
        with tidelog.open(data) as store:
            for codec in Codec:
                append(store, codec)
        for codec in set(Codec) - _MISSING:
            table = tidelog.scan(data, f"orders-{codec.label}", columns=["offset", "value"]).read_all()
            assert table.num_rows == _RECORDS, table.num_rows
        run_command(len(told), Path(scratch), data)
    kind = "compiled" if COMPILED else "plain Python"
    without = ", ".join(f"without {_PACKAGES[codec]}" for codec in sorted(_MISSING))
    python = f"Python {sys.version.split()[0]}"
    print(
        f"tidelog {tidelog.__version__} on {python}, kernels {kind}{without and ', ' + without}: all is well"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
