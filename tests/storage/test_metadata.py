"""partition.metadata, meta.properties and the clean-shutdown file."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN
from tidelog.errors import InvalidIndexError
from tidelog.storage import LOCAL
from tidelog.storage.metadata import (
    MetaProperties,
    PartitionMetadata,
    format_id,
    parse_id,
    parse_properties,
    random_id,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    write_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
)

METADATA_FILES = sorted(GOLDEN.glob("clean/*/partition.metadata"))


@pytest.mark.parametrize("path", METADATA_FILES, ids=lambda path: path.parent.name)
def test_golden_partition_metadata(path: Path, tmp_path: Path) -> None:
    found = read_partition_metadata(LOCAL, path)
    assert found.version == 0
    write_partition_metadata(LOCAL, tmp_path / "m", found.topic_id)
    assert (tmp_path / "m").read_bytes() == path.read_bytes()


def test_golden_meta_properties(tmp_path: Path) -> None:
    found = read_meta_properties(LOCAL, GOLDEN / "clean" / "meta.properties")
    assert found == MetaProperties(
        version=1,
        cluster_id="5Vd06HMPRtCwEpY7p6k1FA",
        node_id=1,
        directory_id=parse_id("ErmpkJpLJN_KJ6grhgcoCQ"),
    )
    write_meta_properties(LOCAL, tmp_path / "m", found)
    assert read_meta_properties(LOCAL, tmp_path / "m") == found


def test_golden_clean_shutdown(tmp_path: Path) -> None:
    golden = GOLDEN / "clean" / ".kafka_cleanshutdown"
    epoch = read_clean_shutdown(LOCAL, golden)
    assert epoch is not None
    write_clean_shutdown(LOCAL, tmp_path / "c", epoch)
    assert (tmp_path / "c").read_bytes() == golden.read_bytes()


@given(st.uuids())
def test_ids_round_trip(identity: uuid.UUID) -> None:
    assert parse_id(format_id(identity)) == identity
    assert len(format_id(identity)) == 22


def test_random_ids_print_without_a_dash_in_front() -> None:
    assert all(not format_id(random_id()).startswith("-") for _ in range(500))


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "ErmpkJpLJN/KJ6grhgcoCQ", "A" * 22 + "==="])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        parse_id(text)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: not 'version: <value>'"),
        (b"version: 0", "line 2: not 'topic_id: <value>'"),
        (b"version 0\ntopic_id: 2wJP_tx-TfSXMIcm-Gw0eA", "line 1: not"),
        (b"version: x\ntopic_id: 2wJP_tx-TfSXMIcm-Gw0eA", "line 1: 'x'"),
        (b"version: -1\ntopic_id: 2wJP_tx-TfSXMIcm-Gw0eA", "line 1: '-1'"),
        (b"version: 0\ntopic_id: 2wJP_tx-TfSXMIcm", "line 2: .* is not an id"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: the topic id is zero"),
    ],
)
def test_broken_partition_metadata(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(InvalidIndexError, match=f"m, {message}"):
        read_partition_metadata(LOCAL, tmp_path / "m")


def test_a_file_that_is_far_too_long_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "m").open("wb") as file:
        file.truncate(1 << 40)  # a sparse one: no memory has room for it
    for read in (read_partition_metadata, read_meta_properties):
        with pytest.raises(InvalidIndexError, match="such a file has at most"):
            read(LOCAL, tmp_path / "m")
    assert read_clean_shutdown(LOCAL, tmp_path / "m") is None


def test_partition_metadata_of_a_later_version(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\nmore: 5\n")
    assert read_partition_metadata(LOCAL, tmp_path / "m") == PartitionMetadata(uuid.UUID(int=1), 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version=2\nnode.id=1\ncluster.id=x\n", "version 2, but only 0 and 1"),
        (b"version=x\n", "version: 'x'"),
        (b"version=1\ncluster.id=x\n", "has no node.id"),
        (b"version=1\nnode.id=1\n", "has no cluster.id"),
        (b"version=1\nnode.id=one\ncluster.id=x\n", "node.id: 'one'"),
        (b"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=x\n", "directory.id: 'x'"),
        (b"a=\\u12\n", "line 1: \\\\u is not followed"),
    ],
)
def test_broken_meta_properties(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(InvalidIndexError, match=message):
        read_meta_properties(LOCAL, tmp_path / "m")


def test_meta_properties_of_version_0(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"broker.id=5\n")
    assert read_meta_properties(LOCAL, tmp_path / "m") == MetaProperties(0, None, 5)
    (tmp_path / "m").write_bytes(b"")
    assert read_meta_properties(LOCAL, tmp_path / "m") == MetaProperties(0, None, None)


@pytest.mark.parametrize(
    "cluster", ["\u4e2d\u6587", "a\nnode.id=7", "\t\r\f\0", " a=b:c#d!e\\ ", "\ud83d\ude00"]
)
def test_any_cluster_id_is_written_as_it_was_read(tmp_path: Path, cluster: str) -> None:
    written = MetaProperties(1, cluster, 5)
    write_meta_properties(LOCAL, tmp_path / "m", written)
    assert read_meta_properties(LOCAL, tmp_path / "m") == written
    assert (tmp_path / "m").read_bytes().isascii()
    assert len((tmp_path / "m").read_bytes().splitlines()) == 4


def test_properties_as_java_reads_them() -> None:
    text = rb"""
# comment = 1
! another
  plain = value with spaces
colon:value
blank value
empty
esc\=aped\:key = a\tb\\c \u00e9
long = one, \
       two
last=\
"""
    assert parse_properties(text, "f") == {
        "plain": "value with spaces",
        "colon": "value",
        "blank": "value",
        "empty": "",
        "esc=aped:key": "a\tb\\c é",
        "long": "one, two",
        "last": "",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":0}',
        b'{"brokerEpoch":"x"}',
        b"\xff",
        pytest.param(b"[" * 99999, id="nested"),
    ],
)
def test_a_clean_shutdown_file_without_an_epoch(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c").write_bytes(data)
    assert read_clean_shutdown(LOCAL, tmp_path / "c") is None
