"""What Kafka's own classes answered to long random questions, recorded so that every run can compare.

    python -m tests.log.answers [NAME]   ask Kafka again and write golden/expected/rules-*.json.gz

Each file is [{"request": ..., "answers": [...]}]; java/*.java of tests/oracle say what the two hold.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden import GOLDEN
from tests.log import questions
from tests.oracle import Oracle

__all__ = ["QUESTIONS", "ask", "recorded"]

QUESTIONS = {
    "ProducerStates": (questions.producer_states, 2),
    "LeaderEpochs": (questions.leader_epochs, 1),
    "SegmentRolls": (questions.segment_rolls, 1),
    "Appends": (questions.appends, 16),
    "OddAppends": (questions.odd_appends, 6),
}
"""What each oracle program is asked, and for how many seeds the answers are recorded."""

PROGRAMS = {"OddAppends": "Appends"}
"""The program that is asked, where it is called otherwise."""

Answers = list[dict[str, Any]]


def _path(program: str) -> Path:
    return GOLDEN / "expected" / f"rules-{program}.json.gz"


def recorded(program: str) -> list[tuple[dict[str, Any], Answers]]:
    """The recorded requests to an oracle program, with its answers."""
    content = json.loads(gzip.decompress(_path(program).read_bytes()))
    return [(each["request"], each["answers"]) for each in content]


def ask(oracle: Oracle, program: str, request: dict[str, Any]) -> Answers:
    """What Kafka answers now."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "t-0")
        directory.mkdir()
        name = PROGRAMS.get(program, program)
        return oracle.programs.ask(f"tidelog.oracle.{name}", {**request, "dir": str(directory)})


def _record(*names: str) -> None:
    oracle = Oracle.obtain()
    for program, (question, seeds) in QUESTIONS.items():
        if names and program not in names:
            continue
        content = []
        for seed in range(1, seeds + 1):
            request = question(seed)
            content.append({"request": request, "answers": ask(oracle, program, request)})
        data = json.dumps(content, separators=(",", ":")).encode()
        _path(program).write_bytes(gzip.compress(data, 9, mtime=0))
        print(program, _path(program).stat().st_size, "bytes")


if __name__ == "__main__":
    _record(*sys.argv[1:])
