"""The transaction index: made late, read whole entries only, refuses what Kafka refuses."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import InvalidIndexError, LogClosedError, OffsetsOutOfOrderError
from tidelog.index import AbortedTxn, TransactionIndex
from tidelog.index import transaction as transaction_module
from tidelog.storage import Directory
from tidelog.storage.names import Transient

A, B, C = AbortedTxn(1, 0, 10, 5), AbortedTxn(2, 3, 15, 16), AbortedTxn(1, 17, 20, 21)


def name(base: int = 0) -> str:
    return f"{base:020}.txnindex"


def test_the_file_is_made_at_the_first_abort(tmp_path: Path) -> None:
    index = TransactionIndex(Directory(tmp_path), 0)
    index.reset()
    index.truncate_to(5)
    index.flush()
    index.sanity_check()
    index.rename_to(Transient.NONE)
    assert index.is_empty
    assert not (tmp_path / name()).exists()
    index.append(A)
    assert (tmp_path / name()).read_bytes().hex() == (
        "0000" + "0000000000000001" + "0000000000000000" + "000000000000000a" + "0000000000000005"
    )
    assert (index.entries, index.size_in_bytes, index.is_empty) == (1, 34, False)


def test_going_back_is_refused(tmp_path: Path) -> None:
    index = TransactionIndex(Directory(tmp_path), 0)
    index.append(B)
    for wrong in (A, B):
        with pytest.raises(OffsetsOutOfOrderError, match="is not larger than the last \\(15\\)"):
            index.append(wrong)
    again = TransactionIndex(Directory(tmp_path), 0)
    with pytest.raises(OffsetsOutOfOrderError):
        again.append(B)
    again.append(C)
    assert again.all_aborted_txns() == [B, C]


def test_collect(tmp_path: Path) -> None:
    index = TransactionIndex(Directory(tmp_path), 0)
    for txn in (A, B, C):
        index.append(txn)
    assert index.collect_aborted_txns(0, 100) == ([A, B, C], False)
    assert index.collect_aborted_txns(0, 21) == ([A, B, C], True)
    assert index.collect_aborted_txns(0, 16) == ([A, B], True)
    assert index.collect_aborted_txns(11, 16) == ([B], True)
    assert index.collect_aborted_txns(16, 17) == ([], True)
    assert index.collect_aborted_txns(0, 3) == ([A], True)


TXNS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(0, 12), st.integers(0, 8)), max_size=40
)


@settings(deadline=None, max_examples=100)
@given(
    steps=TXNS,
    asked=st.lists(st.tuples(st.integers(0, 250), st.integers(0, 250)), max_size=8),
    cut=st.integers(0, 260),
    chunk=st.integers(1, 5),
)
def test_against_a_list(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, int, int]],
    asked: list[tuple[int, int]],
    cut: int,
    chunk: int,
) -> None:
    """With chunks of a few entries, so that small files are searched as large ones are."""
    directory = Directory(tmp_path_factory.mktemp("txn"))
    index, model, last = TransactionIndex(directory, 0), [], 0
    for producer, step, length, behind in steps:
        last += step
        # A log's last stable offset is never past the marker that moved it.
        model.append(AbortedTxn(producer, max(0, last - length), last, max(0, last + 1 - behind)))
        index.append(model[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_module, "_CHUNK_ENTRIES", chunk)
        for each in (index, TransactionIndex(directory, 0)):
            assert each.all_aborted_txns() == model
            for fetch, upper in asked:
                fetch, upper = min(fetch, upper), max(fetch, upper) + 1
                found, complete = [], False
                for txn in model:
                    if txn.last_offset >= fetch and txn.first_offset < upper:
                        found.append(txn)
                    if txn.last_stable_offset >= upper:
                        complete = True
                        break
                assert each.collect_aborted_txns(fetch, upper) == (found, complete)
        index.truncate_to(cut)
        model = [txn for txn in model if txn.last_offset < cut]
        assert index.all_aborted_txns() == TransactionIndex(directory, 0).all_aborted_txns() == model
        index.sanity_check()


def test_truncate_then_append(tmp_path: Path) -> None:
    index = TransactionIndex(Directory(tmp_path), 0)
    for txn in (A, B, C):
        index.append(txn)
    index.truncate_to(15)
    assert (tmp_path / name()).stat().st_size == 34
    index.append(AbortedTxn(9, 8, 11, 12))
    index.reset()
    assert (tmp_path / name()).stat().st_size == 0
    index.append(A)
    assert index.all_aborted_txns() == [A]


def test_a_torn_entry_is_not_seen_and_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / name()).write_bytes(A.encode() + B.encode()[:20])
    index = TransactionIndex(Directory(tmp_path), 0)
    assert index.all_aborted_txns() == [A]
    with pytest.raises(InvalidIndexError, match="54 bytes, no multiple of 34"):
        index.sanity_check()
    index.append(C)
    assert (tmp_path / name()).read_bytes() == A.encode() + C.encode()
    index.sanity_check()


def test_broken_files(tmp_path: Path) -> None:
    def index(base: int, *entries: bytes) -> TransactionIndex:
        (tmp_path / name(base)).write_bytes(b"".join(entries))
        return TransactionIndex(Directory(tmp_path), base)

    with pytest.raises(InvalidIndexError, match="entry 1: version 1, but only 0 is known"):
        index(0, A.encode(), b"\0\1" + B.encode()[2:]).all_aborted_txns()
    with pytest.raises(InvalidIndexError, match="entry 0: version -1"):
        index(0, b"\xff\xff" + B.encode()[2:]).collect_aborted_txns(0, 9)
    with pytest.raises(InvalidIndexError, match="entry 1: last offset 10 is not above 15"):
        index(0, B.encode(), A.encode()).sanity_check()
    with pytest.raises(InvalidIndexError, match="entry 0: last offset 10 is not above 10"):
        index(11, A.encode()).sanity_check()
    index(10, A.encode()).sanity_check()


def test_rename_unlink_and_close(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    directory = Directory(tmp_path / "t-0")
    index, reader = TransactionIndex(directory, 0), TransactionIndex(directory, 0)
    index.append(A)
    assert reader.all_aborted_txns() == [A]
    index.rename_to(Transient.DELETED)
    reader.rename_to(Transient.DELETED)
    directory.move(tmp_path / "t-0.0123-delete")
    index.append(B)
    index.seal()
    assert index.all_aborted_txns() == [A, B]
    index.append(C)
    index.flush()
    reader.flush()
    assert Path(reader.path) == tmp_path / "t-0.0123-delete" / f"{name()}.deleted"
    assert reader.all_aborted_txns() == [A], "what there was when it was opened"
    assert index.delete_if_exists()
    assert not index.delete_if_exists()
    with pytest.raises(LogClosedError):
        index.all_aborted_txns()
    with pytest.raises(LogClosedError):
        index.collect_aborted_txns(0, 5)
    with pytest.raises(LogClosedError):
        index.append(C)
    with pytest.raises(FileNotFoundError):
        reader.all_aborted_txns()
    closed = TransactionIndex(directory, 5)
    closed.close()
    with pytest.raises(LogClosedError):
        closed.all_aborted_txns()


def test_no_descriptor_stays_open_for_readers(tmp_path: Path) -> None:
    TransactionIndex(Directory(tmp_path), 0).append(A)
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    readers = [TransactionIndex(Directory(tmp_path), 0) for _ in range(20)]
    assert all(reader.collect_aborted_txns(0, 5).aborted_txns == [A] for reader in readers)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
