"""Compaction and what must not meet it: deletions, moves, truncations, other settings, the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.compacted import (
    COMPACT,
    Opener,
    both,
    checkpointed,
    fill,
    offsets_of,
    records_of,
)
from tests.waiting import wait_until
from tidelog.cleanup.cleaner import CleanReport
from tidelog.manager import Store
from tidelog.manager.store.events import Event, LogFailed, LogUncleanable
from tidelog.storage import LOCAL
from tidelog.testing.faults import Call, FaultyFileSystem
from tidelog.types import TopicPartition

USERS = TopicPartition("users", 0)


def test_topics_that_go_and_partitions_that_move_take_their_checkpoints_along(
    open_store: Opener, tmp_path: Path
) -> None:
    with open_store() as store:
        store.create_topic("users", config=COMPACT)
        store.create_topic("other", config=COMPACT)
        for partition in store.partitions:
            fill(partition)
        store.clean()
        root = store.partition("users").root
        assert root is not None
        target = tmp_path / ("b" if root.path.endswith("a") else "a")
        store.move_partition("users", 0, target)
        assert checkpointed(target)["users-0"] == 300
        assert "users-0" not in checkpointed(Path(root.path))
        assert offsets_of(store.partition("users")) == [*range(290, 300)]
        fill(store.partition("users"))
        assert store.clean()[USERS].first_dirty_offset == 300
        store.delete_topic("users")
        assert both(tmp_path) == {"other-0": 300}


@pytest.fixture
def slow_store(open_store: Opener) -> Iterator[Store]:
    """A store that is cleaning in the background, and will not be done for hours unless it is stopped."""
    with open_store() as store:
        store.create_topic("users", config=COMPACT)
        fill(store.partition("users"), 600)
    store = open_store(background=True, now_ms=None, properties={"log.cleaner.io.max.bytes.per.second": "5"})
    wait_until(lambda: is_cleaning(store))
    yield store
    store.close()


def is_cleaning(store: Store) -> bool:
    return store._cleaning.is_cleaning(USERS)


def test_closing_stops_it(slow_store: Store) -> None:
    path = Path(slow_store.partition("users").log.path)
    slow_store.close()
    assert not [file for file in path.iterdir() if file.suffix in (".cleaned", ".swap")]


def test_deleting_a_topic_stops_it(slow_store: Store, tmp_path: Path) -> None:
    slow_store.delete_topic("users")
    assert not is_cleaning(slow_store)
    assert both(tmp_path) == {}


def test_moving_a_partition_stops_it(slow_store: Store, tmp_path: Path) -> None:
    slow_store.move_partition("users", 0, other_root(slow_store, tmp_path))
    assert not is_cleaning(slow_store)
    assert not list(Path(slow_store.partition("users").log.path).glob("*.cleaned"))
    assert len(records_of(slow_store.partition("users"))) == 600


@pytest.mark.parametrize("change", ["move", "truncate"])
def test_it_does_not_begin_meanwhile(open_store: Opener, tmp_path: Path, change: str) -> None:
    """Somebody asks for it when the change touches its first file."""
    tried: list[dict[TopicPartition, CleanReport]] = []

    def clean_once(_: Call) -> None:
        fs.rule = lambda _: None
        tried.append(store.clean(USERS))

    fs = FaultyFileSystem(LOCAL, lambda _: None)
    with open_store(fs=fs) as store:
        store.create_topic("users", config=COMPACT)
        fill(store.partition("users"))
        fs.rule = clean_once
        if change == "move":
            store.move_partition("users", 0, other_root(store, tmp_path))
        else:
            store.truncate_partition("users", 0, 250)
        assert tried == [{}]
        store.partition("users").log.roll()
        assert list(store.clean(USERS)) == [USERS], "it may again"


def other_root(store: Store, tmp_path: Path) -> Path:
    """The root that the partition is not in."""
    root = store.partition("users").root
    assert root is not None
    return tmp_path / ("b" if root.path.endswith("a") else "a")


def test_truncating_a_partition_stops_it(slow_store: Store) -> None:
    assert slow_store.truncate_partition("users", 0, 250)
    assert not is_cleaning(slow_store)
    assert offsets_of(slow_store.partition("users")) == [*range(250)]
    assert slow_store.metrics().cleaning.uncleanable == {}


def test_what_grows_anew_after_a_truncation_is_dirty(open_store: Opener, tmp_path: Path) -> None:
    with open_store() as store:
        store.create_topic("users", config=COMPACT)
        partition = store.partition("users")
        fill(partition)
        store.clean()
        assert both(tmp_path) == {"users-0": 300}
        assert not store.truncate_partition("users", 0, 300)
        assert both(tmp_path) == {"users-0": 300}
        assert store.truncate_partition("users", 0, 295)
        assert both(tmp_path) == {"users-0": 0}, "where the segment begins that is written again"
        partition.log.roll()
        fill(partition)
        assert store.clean(USERS)[USERS].first_dirty_offset == 0
        assert offsets_of(partition) == [*range(585, 595)]


def test_a_log_that_is_truncated_behind_its_back_stops_it_too(slow_store: Store) -> None:
    slow_store.partition("users").log.truncate_to(250)
    wait_until(lambda: not is_cleaning(slow_store))
    assert slow_store.metrics().cleaning.uncleanable == {}


@pytest.mark.parametrize("operation", ["create", "pwrite", "sync"])
def test_a_log_that_is_truncated_behind_its_back_is_cleaned_another_time(
    open_store: Opener, events: list[Event], operation: str
) -> None:
    """What was cut at a moment of cleaning stays so, and nothing is left lying about."""
    cuts: list[str] = []

    def cut(call: Call) -> None:
        if not cuts and call.operation == operation and call.path.endswith(".log.cleaned"):
            cuts.append(call.path)
            partition.log.truncate_to(250)

    with open_store(fs=FaultyFileSystem(LOCAL, cut)) as store:
        store.create_topic("users", config=COMPACT)
        partition = store.partition("users")
        fill(partition, 600)
        assert store.clean() == {}
        assert cuts
        assert store.metrics().cleaning.uncleanable == {}
        assert not [event for event in events if isinstance(event, LogFailed | LogUncleanable)]
        assert offsets_of(partition) == [*range(250)]
        assert not list(Path(partition.log.path).glob("*.cleaned"))
        assert store.clean(USERS)[USERS].end_offset == 200
        assert offsets_of(partition) == [*range(190, 250)]


def test_a_log_that_is_truncated_behind_its_back_at_the_very_end_is_not_told_to_be_clean(
    open_store: Opener, tmp_path: Path
) -> None:
    swapped = False

    def cut(call: Call) -> None:
        nonlocal swapped
        if call.operation == "rename" and call.path.endswith(".swap"):
            swapped = True
        elif call.operation == "sync_directory" and swapped:
            fs.rule = lambda _: None
            partition.log.truncate_to(295)

    fs = FaultyFileSystem(LOCAL, cut)
    with open_store(fs=fs) as store:
        store.create_topic("users", config=COMPACT)
        partition = store.partition("users")
        fill(partition)
        store.clean(USERS)
        assert swapped
        assert partition.log_end_offset == 295
        assert both(tmp_path).get("users-0", 0) == 0, "all of it is to be written again"


def test_a_topic_that_is_compacted_no_more_is_left_as_it_is(slow_store: Store) -> None:
    slow_store.alter_config("users", {"cleanup.policy": "delete", "retention.ms": -1})
    assert not is_cleaning(slow_store)
    assert len(records_of(slow_store.partition("users"))) == 600
