"""A package that is not installed costs its codec, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tidelog
from tidelog import Record

PACKAGES = {
    "lz4": "lz4",
    "xxhash": "lz4",
    "zstandard": "zstd",
    "isal": None,
    "google_crc32c": None,
    "cramjam": None,
}
"""And the codec that each one costs."""

SCRIPT = """
import json, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import tidelog
from tidelog.records import Record, decode_records, encode_records
from tidelog.types import Codec

told = {}
for codec in Codec:
    try:
        data = encode_records([Record(b"value " * 50, key=b"key")] * 20, codec=codec)
        told[codec.label] = len(list(decode_records(data)))
    except tidelog.errors.MissingLibraryError as error:
        told[codec.label] = str(error)
print(json.dumps(told))
"""


def without(*packages: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *packages], capture_output=True, text=True, timeout=120, check=True
    )
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_costs_its_codec_only(package: str) -> None:
    told = without(package)
    lost = PACKAGES[package]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        if codec == lost:
            assert f"{codec} needs the package {package}" in str(told[codec])
            assert f"pip install {package}" in str(told[codec])
        else:
            assert told[codec] == 20


def test_with_none_of_them_the_rest_works() -> None:
    told = without(*PACKAGES)
    assert {codec for codec, answer in told.items() if answer == 20} == {"none", "gzip", "snappy"}


def test_a_report_needs_none_of_them_and_counting_keys_names_what_it_needs(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([Record(b"value", b"key")])
    script = f"import sys; sys.modules.update(dict.fromkeys({list(PACKAGES)})); sys.argv[0] = 'tidelog'"
    script += "; from tidelog.cli.main import main; main()"

    def report(*options: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", script, "report", tmp_path / "data", "--json", *options]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    plain = report()
    assert plain.returncode == 0, plain.stderr
    assert "orders" in plain.stdout
    counted = report("--records")
    assert "counting distinct keys needs the package xxhash" in counted.stderr


MEANWHILE = """
import threading, time
from importlib.machinery import ExtensionFileLoader
from tidelog.records.libraries import open_library
plain, begun = ExtensionFileLoader.create_module, threading.Event()
def slowly(self, spec):
    module = plain(self, spec)
    if spec.name == "lz4.block._block":
        begun.set()
        time.sleep(0.3)
    return module
ExtensionFileLoader.create_module = slowly
threading.Thread(target=__import__, args=("lz4.block",)).start()
begun.wait()
assert open_library("lz4.block._block") is not None
"""


def test_a_library_that_another_thread_is_importing_is_waited_for() -> None:
    """It is in `sys.modules` already, and not ready."""
    subprocess.run([sys.executable, "-c", MEANWHILE], timeout=120, check=True)
