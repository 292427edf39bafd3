"""The commands that the page shows: a shell reads back what was meant, and pasting them is harmless."""

from __future__ import annotations

import subprocess

import pytest

from tidelog.scanning.filters import RecordFilter
from tidelog.types import TopicPartition
from tidelog.ui.commands import join_words, quote, search_command
from tidelog.ui.query import RecordQuery

HOSTILE = [
    "plain",
    "",
    "two words",
    "$(touch /tmp/x)`id`",
    "'; rm -rf / #",
    "it's",
    "\\",
    "a\nb\tc",
    "\x1b[31mred\x1b[0m",
    "\u202eevil\u2066",
    "grüß \U0001f30a",
    "\x7f\x00"[:1],
    "-n",
    "!!",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_a_shell_reads_back_the_word(word: str) -> None:
    done = subprocess.run(["bash", "-c", f"printf %s {quote(word)}"], capture_output=True, check=True)
    assert done.stdout.decode() == word
    assert quote(word).isprintable()


def test_words_stay_apart() -> None:
    line = join_words(HOSTILE)
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == HOSTILE


def test_the_command_of_a_search() -> None:
    name = TopicPartition("orders", 0)
    query = RecordQuery(name, since="10 minutes ago", wanted=RecordFilter(key="-k", tombstones=True), limit=5)
    assert search_command("/data/orders-0", query, skip_damage=True) == (
        "tidelog search /data/orders-0 --since '10 minutes ago' --key=-k --limit 5 --tombstones "
        "--corrupt skip --json"
    )
    last = RecordQuery(name, from_end=True, limit=5, committed=True)
    assert search_command("/data/orders-0", last, skip_damage=False) == (
        "tidelog cat /data/orders-0 --last 5 --committed --json"
    )
