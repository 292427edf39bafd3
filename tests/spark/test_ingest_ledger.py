"""The ledger of an ingest: what was taken is known, whatever happens; one run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import InvalidIndexError, LogLockedError
from tidelog.spark.ingesting.ledger import Ledger, SourceFile, hold, is_ledger
from tidelog.testing.crash import CrashFileSystem

FILES = [SourceFile(f"file:///in/{name}.parquet", 10, time) for name, time in (("b", 1), ("a", 2), ("c", 1))]


def test_a_file_is_in_one_batch_the_oldest_first(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "x" / "l")
    assert not ledger.query
    assert not is_ledger(ledger.directory)
    assert [one.path[-9] for one in ledger.fresh(FILES)] == ["b", "c", "a"]
    assert ledger.add(FILES[:1]) == 0
    assert ledger.add(FILES[1:2]) == 1
    again = Ledger(tmp_path / "x" / "l")
    assert is_ledger(again.directory)
    assert again.query == ledger.query != ""
    assert again.batches == [(FILES[0],), (FILES[1],)]
    changed = FILES[0]._replace(size=11)
    assert again.fresh([changed, *FILES]) == [FILES[2]]  # taken is taken, whatever becomes of it


def test_a_run_keeps_others_away(tmp_path: Path) -> None:
    for _ in range(2):
        with hold(tmp_path / "x" / "l"):
            with pytest.raises(LogLockedError, match=r"another ingest under this name is at work.*process"):
                hold(tmp_path / "x" / "l").__enter__()
            Ledger(tmp_path / "x" / "l").add(FILES[:1])
    assert len(Ledger(tmp_path / "x" / "l").batches) == 2


def test_without_a_lock_one_of_two_runs_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path).add(FILES[:1])
    one, two = Ledger(tmp_path), Ledger(tmp_path)
    one.add(FILES[1:2])
    with pytest.raises(LogLockedError, match="another ingest under this name"):
        two.add(FILES[2:])
    assert Ledger(tmp_path).batches == [(FILES[0],), (FILES[1],)]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["ledger.json", "batch-00000000.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": 1, "files": [["x"]], "id": []', None])
def test_a_damaged_ledger_is_told(tmp_path: Path, name: str, content: bytes | None) -> None:
    ledger = Ledger(tmp_path)
    for one in FILES[:2]:
        ledger.add([one])
    path = tmp_path / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidIndexError, match="what was ingested"):
        Ledger(tmp_path)


def test_a_batch_that_was_written_down_survives_the_power() -> None:
    fs = CrashFileSystem()
    ledger = Ledger(Path("/data/.ingest/l"), fs)
    written = []
    for one in FILES:
        ledger.add([one])
        written.append(fs.steps)
    for step in range(fs.steps + 1):
        for kept in ("synced", "all", "some"):
            found = Ledger(Path("/data/.ingest/l"), fs.crash(step, seed=step, kept=kept))
            durable = sum(step >= end for end in written)
            assert found.batches == [(one,) for one in FILES[: len(found.batches)]]
            assert durable <= len(found.batches) <= durable + 1
            assert not durable or found.query == ledger.query
