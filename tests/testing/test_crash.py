"""The simulator: it behaves as this machine's file system does, and a cut leaves what a cut may leave."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.storage import LOCAL, FileSystem, atomic_write, read_file
from tidelog.testing.crash import CrashFileSystem, copy_tree
from tidelog.testing.faults import FaultyFileSystem, fail_on
from tidelog.testing.journal import Write

SEEDS = range(60)


def tree(fs: FileSystem, path: str) -> dict[str, Any]:
    """Everything under a directory: bytes of files, trees of directories."""
    return {
        entry.name: tree(fs, f"{path}/{entry.name}")
        if entry.is_directory
        else read_file(fs, f"{path}/{entry.name}")
        for entry in fs.list(path)
    }


# ---- like the machine's own


def act(fs: FileSystem, root: str, dice: random.Random) -> object:
    """One random call; what it answered, or the number of its error."""
    names = [f"{root}/{name}" for name in ("a", "b", "d", "d/a", "d/b", "e", "e/d")]
    path, other = dice.choice(names), dice.choice(names)
    position, data = dice.randrange(0, 600), dice.randbytes(dice.randrange(0, 700))
    call = dice.randrange(12)
    create = dice.random() < 0.6
    try:
        match call:
            case 0 | 1:
                file = fs.open(path, writable=True, create=create)
                answer: object = file.pwrite(data, position)
                file.close()
            case 2:
                file = fs.open(path, writable=True)
                answer = file.pwritev([data[:9], memoryview(data)[9:]], position)
            case 3:
                answer = fs.open(path, writable=True).truncate(position)
            case 4:
                answer = fs.open(path, writable=True).allocate(position, 30)
            case 5:
                file = fs.open(path, writable=True)
                mapping = file.map_writable()
                mapping.buffer[position % 50 : position % 50 + 3] = b"map"[
                    : max(file.size() - position % 50, 0)
                ]
                mapping.flush()
                mapping.close()
                answer = bytes(file.map_readonly())
            case 6:
                answer = fs.rename(path, other)
            case 7:
                answer = fs.link(path, other)
            case 8:
                answer = fs.unlink(path)
            case 9:
                answer = fs.make_directory(path)
            case 10:
                answer = fs.remove_directory(path)
            case _:
                found = fs.stat(other)
                size = 0 if found.is_directory else found.size  # of a directory: the machine's own affair
                answer = sorted(fs.list(path)), fs.exists(path), found.is_directory, size
    except OSError as error:
        return type(error)
    except ValueError:
        return ValueError
    return answer


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_it_answers_as_this_machine_does(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("local")
    fs = CrashFileSystem()
    fs.make_directory("/r")
    ours, theirs = random.Random(seed), random.Random(seed)
    for _ in range(60):
        answer, expected = act(fs, "/r", ours), act(LOCAL, str(root), theirs)
        assert answer == expected
    assert tree(fs, "/r") == tree(LOCAL, str(root))
    assert tree(fs.crash(kept="all"), "/r") == tree(LOCAL, str(root))


def test_handles_outlive_their_names() -> None:
    fs = CrashFileSystem()
    file = fs.open("/f", create=True)
    file.pwrite(b"abc", 0)
    view = file.map_readonly()
    fs.unlink("/f")
    file.pwrite(b"d", 3)
    assert (bytes(view), file.pread(9, 0), fs.exists("/f")) == (b"abc", b"abcd", False)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.size()
    with pytest.raises(ValueError, match="not an absolute path"):
        fs.exists("f")


def test_files_grow_past_what_was_reserved() -> None:
    fs = CrashFileSystem()
    file = fs.open("/f", create=True)
    data = random.Random(1).randbytes(40 << 20)
    views = [file.map_readonly(len(data), ahead=True)]
    for start in range(0, len(data), 9_000_000):
        file.pwrite(data[start : start + 9_000_000], start)
        views.append(file.map_readonly(len(data), ahead=True))
        assert len(views[-1]) >= min(start + 9_000_000, len(data))
    assert read_file(fs, "/f") == data
    assert all(view == data[: len(view)] for view in views)
    small = fs.open("/g", create=True)
    small.truncate(10)
    small.map_writable()
    with pytest.raises(RuntimeError, match="mapped"):
        small.truncate(64 << 20)


# ---- power cuts


def states(fs: CrashFileSystem, seeds: range = SEEDS) -> list[tuple[int, CrashFileSystem]]:
    return [(step, fs.crash(step, seed=seed)) for step in range(fs.steps + 1) for seed in seeds]


def made(fs: CrashFileSystem, path: str, data: bytes) -> None:
    """A file that is safe on the disk."""
    file = fs.open(path, create=True)
    file.pwrite(data, 0)
    file.sync()
    fs.sync_directory(path.rpartition("/")[0] or "/")


def test_what_was_synced_is_there() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"one")
    safe = fs.steps
    file = fs.open("/f", writable=True)
    file.pwrite(b"two", 3)
    file.sync()
    safer = fs.steps
    file.pwrite(b"three", 6)
    for step, after in states(fs):
        if step >= safe:
            assert read_file(after, "/f").startswith(b"onetwo" if step >= safer else b"one")


def test_what_was_not_synced_is_lost_torn_zeroed_or_there() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"")
    data = bytes(range(1, 251)) * 8
    fs.open("/f", writable=True).pwrite(data, 0)
    found = [read_file(fs.crash(seed=seed, stale=False), "/f") for seed in range(200)]
    assert b"" in found
    assert data in found
    assert any(len(one) == len(data) and not any(one) for one in found), "the size alone"
    assert any(0 < len(one) < len(data) and data.startswith(one) for one in found), "torn"
    holes = [one for one in found if len(one) == len(data) and 0 < one.count(0) < len(one)]
    assert any(one[:512] == bytes(512) and any(one[512:]) for one in holes), "reordered"
    for one in found:
        assert all(byte in (0, right) for byte, right in zip(one, data, strict=False))


@given(seed=st.integers(0, 2**32), cut=st.integers(0, 40))
@settings(max_examples=100)
def test_appended_bytes_are_right_or_zero_and_synced_ones_right(seed: int, cut: int) -> None:
    fs, dice = CrashFileSystem(), random.Random(seed)
    made(fs, "/f", b"")
    file = fs.open("/f", writable=True)
    data, safe, lengths = b"", {fs.steps: 0}, {0}
    for _ in range(15):
        if dice.random() < 0.3:
            file.sync()
            safe[fs.steps] = len(data)
        else:
            part = bytes(dice.randrange(1, 256) for _ in range(dice.randrange(1, 900)))
            file.pwrite(part, len(data))
            data += part
            lengths.add(len(data))
    step = min(3 + cut, fs.steps)
    found = read_file(fs.crash(step, seed=seed, stale=False), "/f")
    synced = max(length for at, length in safe.items() if at <= step)
    assert found[:synced] == data[:synced]
    assert all(byte in (0, right) for byte, right in zip(found, data, strict=False))
    assert len(found) in lengths or data.startswith(found)


def test_a_truncation_never_brings_old_and_new_blocks_together() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"o" * 2048)
    file = fs.open("/f", writable=True)
    file.truncate(512)
    file.pwrite(b"n" * 1536, 512)
    found = {read_file(fs.crash(seed=seed, stale=False), "/f") for seed in range(200)}
    assert b"o" * 2048 in found
    assert b"o" * 512 + b"n" * 1536 in found
    for one in found:
        assert set(one[512:]) in ({ord("o")}, {ord("n")}, {0}, {0, ord("n")}, set()), one
    assert any({0, ord("n")} == set(one[512:]) for one in found)


def test_new_blocks_hold_what_was_there_before() -> None:
    fs = CrashFileSystem()
    made(fs, "/other", b"secret" * 400)
    made(fs, "/f", b"old" * 10)
    fs.open("/f", writable=True).pwrite(b"new" * 1000, 30)
    found = {read_file(fs.crash(seed=seed), "/f") for seed in range(300)}
    assert all(one.startswith(b"old" * 10) for one in found), "what was safe is safe"
    behind = [one[512:] for one in found]
    assert any(b"secret" in one for one in behind), "stale"
    assert any(set(one) - set(b"newsecrt\0old") for one in behind), "garbage"
    assert any(not any(one) for one in behind if one), "zeros"


def test_a_hole_that_was_made_by_a_truncation_reads_as_zeros() -> None:
    fs = CrashFileSystem()
    made(fs, "/other", b"secret" * 400)
    made(fs, "/f", b"old")
    fs.open("/f", writable=True).truncate(5000)
    found = {read_file(fs.crash(seed=seed), "/f") for seed in range(100)}
    assert found == {b"old", b"old" + bytes(4997)}


# ---- syncs that fail


def test_a_failed_sync_drops_what_it_was_to_write() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"safe")
    file = fs.open("/f", writable=True)
    file.pwrite(b"lost", 4)
    file.fail_sync()
    assert file.pread(8, 0) == b"safelost", "the system goes on showing it"
    file.sync()
    assert read_file(fs.crash(kept="synced"), "/f") == b"safe" + bytes(4)
    assert read_file(fs.crash(kept="all"), "/f") == b"safelost"
    assert {read_file(fs.crash(seed=seed), "/f") for seed in SEEDS} == {b"safe" + bytes(4), b"safelost"}


def test_a_page_that_is_written_again_after_a_failed_sync_is_synced_whole() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", bytes(8192))
    file = fs.open("/f", writable=True)
    file.pwrite(b"a" * 8192, 0)
    file.fail_sync()
    file.pwrite(b"b", 10)
    file.sync()
    found = read_file(fs.crash(kept="synced"), "/f")
    assert found == b"a" * 10 + b"b" + b"a" * 4085 + bytes(4096)


def test_a_failed_flush_of_a_mapping_drops_its_stores() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", bytes(100))
    mapping = fs.open("/f", writable=True).map_writable()
    mapping.buffer[0] = 1
    mapping.fail_flush()
    mapping.flush()
    assert read_file(fs.crash(kept="synced"), "/f") == bytes(100)
    mapping.buffer[1] = 2
    mapping.flush()
    assert read_file(fs.crash(kept="synced"), "/f")[:3] == b"\1\2\0"
    mapping.close()


def test_a_faulty_file_system_above_drops_pages_too() -> None:
    inner = CrashFileSystem()
    made(inner, "/f", b"old")
    fs = FaultyFileSystem(inner, fail_on("sync", "f", errno.EIO, times=1))
    file = fs.open("/f", writable=True)
    file.pwrite(b"new", 0)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert read_file(inner.crash(kept="synced"), "/f") == b"old"


def test_stores_into_a_hole_are_found_out() -> None:
    fs = CrashFileSystem()
    file = fs.open("/f", create=True)
    file.truncate(8192)
    mapping = file.map_writable()
    file.allocate(0, 100)
    mapping.buffer[99] = 1
    assert fs.steps
    assert not fs.blind_stores
    mapping.buffer[100] = 1
    assert fs.steps
    assert fs.blind_stores
    mapping.close()


def test_stores_to_a_mapping_are_safe_only_after_its_flush() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", bytes(1024))
    mapping = fs.open("/f", writable=True).map_writable()
    before = fs.steps
    mapping.buffer[10:13] = b"abc"
    assert fs.steps == before + 1
    assert fs.operation(fs.steps) == Write(1, 10, b"abc")
    found = {read_file(fs.crash(seed=seed), "/f")[10:13] for seed in SEEDS}
    assert found == {bytes(3), b"abc"} | {b"a\0\0", b"ab\0"} & found
    mapping.flush()
    mapping.buffer[600] = 1
    for seed in SEEDS:
        assert read_file(fs.crash(seed=seed), "/f")[10:13] == b"abc"
    assert {read_file(fs.crash(seed=seed), "/f")[600] for seed in SEEDS} == {0, 1}
    mapping.close()
    after = fs.crash(kept="synced").open("/f", writable=True).map_writable()
    after.buffer[0] = 7
    after.close()
    fs.open("/f", writable=True).pwrite(b"later", 0)
    assert {read_file(fs.crash(seed=seed), "/f")[600] for seed in SEEDS} == {0, 1}


def test_a_name_is_safe_only_after_its_directory_was_synced() -> None:
    fs = CrashFileSystem()
    fs.make_directory("/d")
    fs.sync_directory("/")
    file = fs.open("/d/f", create=True)
    file.pwrite(b"data", 0)
    file.sync()
    assert {fs.crash(seed=seed).exists("/d/f") for seed in SEEDS} == {False, True}
    fs.sync_directory("/d")
    fs.unlink("/d/f")
    assert {fs.crash(seed=seed).exists("/d/f") for seed in SEEDS} == {False, True}
    fs.sync_directory("/d")
    assert {fs.crash(seed=seed).exists("/d/f") for seed in SEEDS} == {False}


def test_a_rename_happens_wholly_or_not_at_all() -> None:
    fs = CrashFileSystem()
    for directory in ("/p", "/q"):
        fs.make_directory(directory)
    fs.sync_directory("/")
    made(fs, "/p/a", b"a")
    made(fs, "/q/b", b"b")
    safe = fs.steps
    fs.rename("/p/a", "/q/b")
    found = []
    for step, after in states(fs):
        if step >= safe:
            left = tree(after, "/")
            assert left in ({"p": {"a": b"a"}, "q": {"b": b"b"}}, {"p": {}, "q": {"b": b"a"}})
            found.append(left["p"])
    assert {} in found
    fs.sync_directory("/q")
    assert all(tree(fs.crash(seed=seed), "/") == {"p": {}, "q": {"b": b"a"}} for seed in SEEDS)


def test_names_that_have_nothing_to_do_with_each_other_come_in_any_order() -> None:
    fs = CrashFileSystem()
    for name in "abc":
        fs.open(f"/{name}", create=True)
    found = {"".join(sorted(tree(fs.crash(seed=seed), "/"))) for seed in range(400)}
    assert found == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_one_file_has_its_names_one_after_the_other() -> None:
    fs = CrashFileSystem()
    fs.open("/a", create=True)
    fs.rename("/a", "/b")
    fs.rename("/b", "/c")
    found = {"".join(sorted(tree(fs.crash(seed=seed), "/"))) for seed in range(200)}
    assert found == {"", "a", "b", "c"}


def test_a_directory_goes_after_its_files_and_is_never_in_two_places() -> None:
    fs = CrashFileSystem()
    fs.make_directory("/t-0")
    made(fs, "/t-0/f", b"f")
    fs.sync_directory("/")
    safe = fs.steps
    fs.rename("/t-0", "/t-0-delete")
    fs.unlink("/t-0-delete/f")
    fs.remove_directory("/t-0-delete")
    found = []
    for step, after in states(fs):
        if step >= safe:
            found.append(tree(after, "/"))
            assert found[-1] in [
                {},
                *({name: kept} for name in ("t-0", "t-0-delete") for kept in ({}, {"f": b"f"})),
            ]
    assert all(some in found for some in ({}, {"t-0": {}}, {"t-0": {"f": b"f"}}, {"t-0-delete": {}}))


def test_replacing_a_file_atomically_leaves_the_old_or_the_new_one() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"old" * 400)
    safe = fs.steps
    atomic_write(fs, "/f", b"new" * 500)
    found = {read_file(after, "/f") for step, after in states(fs) if step >= safe}
    assert found == {b"old" * 400, b"new" * 500}
    assert {read_file(fs.crash(seed=seed), "/f") for seed in SEEDS} == {b"new" * 500}


def test_a_replacement_without_sync_is_found_out() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"old" * 400)
    safe = fs.steps
    fs.open("/f.tmp", create=True).pwrite(b"new" * 500, 0)
    fs.rename("/f.tmp", "/f")
    fs.sync_directory("/")
    found = {read_file(after, "/f") for step, after in states(fs) if step >= safe}
    assert found - {b"old" * 400, b"new" * 500}


def test_one_seed_gives_one_state_and_a_state_crashes_again() -> None:
    fs = CrashFileSystem()
    made(fs, "/f", b"first")
    fs.open("/f", writable=True).pwrite(b"x" * 3000, 5)
    fs.open("/g", create=True).pwrite(b"y" * 3000, 0)
    for seed in SEEDS:
        after = fs.crash(seed=seed)
        assert tree(after, "/") == tree(fs.crash(seed=seed), "/") == tree(after.crash(kept="synced"), "/")
        after.open("/f", writable=True).pwrite(b"second" * 300, 0)
        assert read_file(after.crash(seed=seed), "/f")[:5] in (
            b"first",
            b"secon",
            *(b"second"[:n] + b"first"[n:] for n in range(5)),
        )
    assert tree(fs.crash(kept="synced"), "/") == {"f": b"first"}
    assert tree(fs.crash(0), "/") == {}


def test_a_state_can_be_looked_at_by_other_programs(tmp_path: Path) -> None:
    fs = CrashFileSystem(clock=lambda: 86_400_000)
    fs.make_directory("/r")
    made(fs, "/r/f", b"bytes")
    fs.make_directory("/r/d")
    fs.copy_to(LOCAL, "/r", tmp_path / "copy")
    assert tree(LOCAL, str(tmp_path / "copy")) == {"f": b"bytes", "d": {}}
    assert (tmp_path / "copy" / "f").stat().st_mtime == 86_400
    back = CrashFileSystem()
    copy_tree(LOCAL, tmp_path / "copy", back, "/r")
    assert tree(back, "/") == tree(fs, "/")
    assert back.stat("/r/f").mtime_ms == 86_400_000
