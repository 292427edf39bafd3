"""A disk that fails once, at any call while a store is opened, read and closed: nothing is lost."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.manager.stores import SMALL, fill, some, values
from tidelog.errors import LogOfflineError, TidelogError
from tidelog.storage import LOCAL
from tidelog.testing.faults import Call, Fault, FaultyFileSystem, fail_on

EXPECTED = [one.value for one in some(30)]
STRIDE = 7
"""Every so many calls fail in a normal run; all of them in a long one."""


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "crashed") as store:
        store.create_topic("t", 2, SMALL)
        for partition in store.partitions:
            fill(partition, 30)
    (tmp_path / "crashed" / ".kafka_cleanshutdown").unlink()
    return tmp_path / "crashed"


def survives(root: Path, number: int, code: int) -> bool:
    """Use a store while its `number`th call fails, then again; whether there was such a call."""
    count = 0

    def rule(call: Call) -> Fault | None:
        nonlocal count
        count += 1
        return Fault(code) if count == number else None

    try:
        with tidelog.open(root, fs=FaultyFileSystem(LOCAL, rule), background=False, recover=True) as store:
            for partition in (0, 1):
                assert values(store, "t", partition) == EXPECTED
    except (OSError, TidelogError):
        pass  # a clear error; what counts is what the next opening finds
    with tidelog.open(root, recover=True) as store:
        assert not store.offline_partitions
        assert [values(store, "t", partition) for partition in (0, 1)] == [EXPECTED] * 2, number
    return count >= number


def sweep(crashed: Path, scratch: Path, code: int, stride: int) -> int:
    number = 1
    while survives(Path(shutil.copytree(crashed, scratch / str(number))), number, code):
        number += stride
    return number


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_disk_that_fails_at_some_calls(crashed: Path, tmp_path: Path, code: int) -> None:
    assert sweep(crashed, tmp_path, code, STRIDE) > 100


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_a_disk_that_fails_at_any_call(crashed: Path, tmp_path: Path, code: int) -> None:
    assert sweep(crashed, tmp_path, code, 1) > 100


def test_a_root_that_could_not_be_opened_is_in_order_still(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        fill(store.create_topic("t", 1, SMALL)[0], 30)
    mark = (root / ".kafka_cleanshutdown").read_bytes()
    files = {path.name: path.read_bytes() for path in (root / "t-0").iterdir()}
    (root / "u-0").mkdir()  # to be adopted, and registered
    failing = FaultyFileSystem(LOCAL, fail_on("create", "bootstrap.checkpoint*", errno.EIO))
    with pytest.raises((OSError, TidelogError)):
        tidelog.open(root, adopt=True, fs=failing)
    assert failing.faults
    assert (root / ".kafka_cleanshutdown").read_bytes() == mark
    assert {path.name: path.read_bytes() for path in (root / "t-0").iterdir()} == files
    with tidelog.open(root) as store:
        assert values(store, "t", 0) == EXPECTED


@pytest.mark.parametrize("times", [1, None])
def test_metadata_whose_sync_failed_says_what_it_said_before(tmp_path: Path, times: int | None) -> None:
    """A topic whose deletion failed stays, with what is appended to it; none is there that was not made."""
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    with tidelog.open(tmp_path, fs=fs, background=False) as store:
        store.create_topic("t", 1)
        fs.rule = fail_on("sync_directory", tmp_path.name, errno.EIO, times=times)
        with pytest.raises(OSError, match="Input/output error"):
            store.delete_topic("t")
        fs.rule = lambda call: None
        if times is None:  # nobody knows what is registered: nothing more is taken
            with pytest.raises(LogOfflineError):
                store.partition("t").append(some(1))
            return
        store.partition("t").append(some(3), sync=True)
        fs.rule = fail_on("sync_directory", tmp_path.name, errno.EIO, times=1)
        with pytest.raises(OSError, match="Input/output error"):
            store.create_topic("ghost", 2)
        fs.rule = lambda call: None
    with tidelog.open(tmp_path, background=False) as store:
        assert list(store.topics) == ["t"]
        assert len(values(store, "t")) == 3
