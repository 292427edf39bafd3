"""Hot loops in Cython's pure-Python mode. Each `.py` file also runs uncompiled, slowly, under the same tests.

    reading      scan (batch headers), plan (which batches to decode together), decode (batches to columns),
                 records, messages (magic 0 and 1), columns (Arrow buffers), header_counts, lookup (a batch or
                 record by offset or time), record_lookup (one record of a batch), time_lookup (an offset by
                 time, in one call), search (index entries),
                 resync (the next batch after damage)
    payloads     lz4, snappy, scratch (memory to decompress into), codecs (their ids), crc, varints
    writing      encode (Arrow to batches), batch_headers, entries (index entries)
    appending    appends, record_summary, append_checks, single_batch (check and stamp what is appended),
                 appender (one batch, written too), progress (where the writer stands), published (what
                 readers see of a log), locks, shared (fields that kernels and Python classes share)
    compaction   record_keys (keys and their hashes), keymap, mapping (first pass), cleaning (second pass),
                 upconvert (magic 0 and 1 to v2)
    values       avro (datums to columns), jsonfit (which JSON fits a schema)
    rewriting    editing (records erased, redacted, with other times)
    text         batchlines, jsonl, text
    others       murmur (Kafka's partitioner), faults (the codes that kernels return)

Rules: a call takes a buffer and fills arrays. The GIL is released. Every bound is checked before it is used.
A kernel never raises for bad bytes: it returns a fault code and a position, and `records` raises the error.
"""

import sys
import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["COMPILED"]

_HERE = Path(__file__).parent


def _compiled() -> bool:
    return any((_HERE / f"scan{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def _import_without_cython() -> None:
    """Import all kernels as plain Python, with a stand-in for Cython that nobody else gets to see."""
    modules: dict[str, Any] = sys.modules
    modules["cython"] = import_module(f"{__name__}._cython").make_module()
    try:
        for path in sorted(_HERE.glob("[!_]*.py")):
            import_module(f"{__name__}.{path.stem}")
    finally:
        del modules["cython"]


COMPILED = _compiled()
"""True when the kernels run as machine code."""

if not COMPILED:
    warnings.warn(
        "tidelog's kernels are not compiled and run as plain Python, about a hundred times slower; "
        "install a C compiler and reinstall tidelog to compile them",
        RuntimeWarning,
        stacklevel=2,
    )
    if find_spec("cython") is None:
        _import_without_cython()
