"""One listing of a partition's directory, whoever asks and wherever the names come from."""

from __future__ import annotations

from pathlib import Path

import fsspec
from hypothesis import given
from hypothesis import strategies as st

from tidelog.layout.partitions import PartitionFiles, list_partition, log_sizes
from tidelog.log import Log
from tidelog.records import Record
from tidelog.scanning.partitions import find_partitions
from tidelog.storage import LOCAL
from tidelog.storage.names import SEGMENT_FILES, FileKind, SegmentFileName, Transient

names = st.builds(
    lambda offset, kind, transient: str(SegmentFileName(offset, kind, transient)),
    st.integers(0, 3),
    st.sampled_from(FileKind),
    st.sampled_from(Transient),
)


@given(st.sets(st.one_of(names, st.sampled_from(["partition.metadata", "00.log", "x.swap"]))))
def test_each_file_is_one_thing(listed: set[str]) -> None:
    """Of a segment, a snapshot, an orphan, transient, or none of a segment's."""
    files = PartitionFiles.of((name, False) for name in sorted(listed))
    settled = {str(SegmentFileName(offset, kind)) for offset, kinds in files.kinds.items() for kind in kinds}
    assert settled | set(files.transient) == set(files.parsed)
    assert not settled & set(files.transient)
    assert set(files.names) - set(files.parsed) == {name for name in listed if len(name) < 20}
    logs = {one.base_offset for one in files.segments}
    assert logs == {offset for offset, kinds in files.kinds.items() if FileKind.LOG in kinds}
    for offset in files.orphans:
        assert offset not in logs
        assert files.kinds[offset] & {*SEGMENT_FILES}
    assert all(FileKind.SNAPSHOT in files.kinds[offset] for offset in files.snapshots)


def test_a_directory_with_a_files_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").mkdir()
    (tmp_path / f"{7:020}.log").write_bytes(b"abc")
    files = list_partition(LOCAL, str(tmp_path))
    assert files.misplaced == (f"{0:020}.log",)
    assert [one.base_offset for one in files.segments] == [7]
    assert log_sizes(LOCAL, str(tmp_path)) == {7: 3}


def test_scans_see_the_same_files_here_and_through_fsspec(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        for number in range(3):
            log.append_as_leader([Record(b"value %d" % number)])
            log.roll()
    listed = list_partition(LOCAL, str(tmp_path / "t-0"))
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/listed", recursive=True)
    try:
        for url in (str(tmp_path), "memory://listed"):
            (partition,) = find_partitions(url)
            assert partition.files().kinds == listed.kinds
            assert [one.base_offset for one in partition.segments] == [
                one.base_offset for one in listed.segments
            ]
    finally:
        memory.rm("/listed", recursive=True)


def test_a_directory_that_grows_while_it_is_listed_has_no_hole() -> None:
    names = [f"{base:020d}.log" for base in (0, 10, 20, 30, 40)]
    listings = iter([[names[0], names[2]], [names[0], names[1], names[2], names[4]]])
    files = PartitionFiles.look(lambda: [(name, False) for name in next(listings)] + [("other", False)])
    assert [segment.base_offset for segment in files.segments] == [0, 10, 20]
    assert "other" in files.names
