"""Runs the README's first steps on the tidelog that is installed; any difference ends it with an error.

No test framework and nothing of the source tree: this is for blank environments (`make dist`, cibuildwheel).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

with warnings.catch_warnings(record=True) as WARNINGS:
    warnings.simplefilter("always")
    import tidelog
    from tidelog import Codec, Record
    from tidelog.kernels import COMPILED

_RECORDS = 200


def main() -> int:
    """0, or an error."""
    told = [str(each.message) for each in WARNINGS if "kernels are not compiled" in str(each.message)]
    assert len(told) == (0 if COMPILED else 1), told
    with tempfile.TemporaryDirectory(prefix="tidelog-quickstart-") as scratch:
        data = Path(scratch) / "data"
        with tidelog.open(data) as store:
            for codec in Codec:
                topic = store.create_topic(f"orders-{codec.label}", partitions=1)
                records = [Record(b"value %d" % n, key=b"key %d" % n) for n in range(_RECORDS)]
                topic[0].append(records, codec=codec)
                assert [record.value for record in topic[0]] == [record.value for record in records]
        for codec in Codec:
            table = tidelog.scan(data, f"orders-{codec.label}", columns=["offset", "value"]).read_all()
            assert table.num_rows == _RECORDS, table.num_rows
        command = Path(sys.executable).with_name("tidelog")
        for words in (["ls", data], ["cat", data / "orders-none-0"], ["verify", data], ["--version"]):
            done = subprocess.run(
                [command, *map(str, words)], capture_output=True, text=True, timeout=300, check=True
            )
            assert done.stdout.strip(), words
            assert done.stderr.count("kernels are not compiled") <= len(told), done.stderr
    kind = "compiled" if COMPILED else "plain Python"
    print(f"tidelog {tidelog.__version__} on Python {sys.version.split()[0]}, kernels {kind}: all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
