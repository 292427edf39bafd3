"""Damaged files: a correct answer or a clear error, never a wrong answer."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.segment.crafting import (
    CODECS,
    NOW_MS,
    Nothing,
    append,
    batch,
    created,
    opened,
    random_batches,
    table_of,
)
from tidelog.errors import (
    ChecksumError,
    CompressionError,
    CorruptRecordError,
    IndexOffsetOverflowError,
    RecordOverrunError,
    TornBatchError,
    UnknownCodecError,
    UnknownMagicError,
)
from tidelog.index import AbortedTxn
from tidelog.records import BatchTable, Record, decode_records, encode_records
from tidelog.records.checksums import crc32c
from tidelog.segment import SealedSegment
from tidelog.storage import Directory
from tidelog.types import Codec

pytestmark = pytest.mark.usefixtures("kernel")


def sealed(directory: Directory, data: bytes, interval: int = 100) -> SealedSegment:
    segment = created(directory, index_interval_bytes=interval)
    append(segment, data)
    segment.close()
    return SealedSegment.open(directory, 0)


def with_checksum(data: bytes) -> bytes:
    """The v2 batch with the checksum that its bytes now have."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def log_file(directory: Directory, kind: str = "log") -> Path:
    return Path(directory.path, f"{0:020}.{kind}")


@pytest.mark.parametrize(
    "damage", ["zeros", "zeros behind", "noise", "shuffled", "cut", "far positions", "empty"]
)
@pytest.mark.parametrize("which", ["index", "timeindex"])
def test_answers_do_not_depend_on_the_index(directory: Directory, which: str, damage: str) -> None:
    rng = random.Random(f"{which} {damage}")
    data = b"".join(random_batches(rng, 0, 60))
    sound = sealed(directory, data)
    records = list(decode_records(data))
    end = sound.next_offset()
    largest = sound.max_timestamp_so_far
    path = log_file(directory, which)
    entry_size = 8 if which == "index" else 12
    entries = path.read_bytes()
    each = [entries[at : at + entry_size] for at in range(0, len(entries), entry_size)]
    rng.shuffle(each)
    if damage == "far positions" and which == "timeindex":
        pytest.skip("a time index has no positions")
    far = b"".join(entry[:4] + struct.pack(">i", rng.randrange(-5, 2**31)) for entry in each)
    path.write_bytes(
        {
            "zeros": bytes(4096 - 4096 % entry_size),
            "zeros behind": entries + bytes(10 * entry_size),
            "noise": rng.randbytes(len(entries)),
            "shuffled": b"".join(each),
            "cut": entries[: len(entries) // 2 + 3],
            "far positions": far,
            "empty": b"",
        }[damage]
    )
    broken = SealedSegment.open(directory, 0)
    if damage not in ("cut", "empty"):
        assert broken.index_fault() is not None
        broken = SealedSegment.open(directory, 0)
    assert broken.next_offset() == end
    if damage != "cut":  # it ends with an entry that it could end with
        assert broken.max_timestamp_so_far == largest
    positions, lasts = table_of(data).position, table_of(data).last_offset
    for record in records[::3]:
        assert broken.read_record(record.offset) == record
        found = broken.translate_offset(record.offset)
        assert found is not None
        assert found.offset <= record.offset
        late = next(each for each in records if each.timestamp >= record.timestamp)
        first = broken.find_offset_by_timestamp(record.timestamp, 0)
        assert first is not None
        assert (first.timestamp, first.offset) == (late.timestamp, late.offset)
        bound = broken.fetch_upper_bound_offset(found.position, 500)
        assert bound is None or bound > int(lasts[positions < found.position + 500][-1])
    assert broken.read_record(end) is None


def test_an_unclean_directory_answers_before_it_is_recovered(directory: Directory) -> None:
    """A killed writer leaves preallocated indexes: all their slots are entries, most of them zeros."""
    segment = created(directory)
    data = b"".join(random_batches(random.Random(5), 0, 60))
    append(segment, data)
    largest = segment.max_timestamp_so_far
    segment.abandon()
    assert log_file(directory, "index").stat().st_size == 4096
    left = SealedSegment.open(directory, 0)
    assert "never trimmed" in str(left.index_fault())
    for record in decode_records(data):
        assert left.read_record(record.offset) == record
    assert left.max_timestamp_so_far == largest
    assert left.next_offset() == table_of(data).last_offset[-1] + 1


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_in_a_batch_is_an_error_where_it_matters(directory: Directory, codec: Codec) -> None:
    good, bad = batch(0, [1, 2, 3], codec=codec), bytearray(batch(3, [4, 5, 6], codec=codec))
    bad[-1] ^= 1
    log_file(directory).write_bytes(good + bad + batch(6, [7]))
    segment = SealedSegment.open(directory, 0)
    for offset in (0, 1, 2, 6):
        assert segment.read_record(offset) is not None
    with pytest.raises(ChecksumError) as error:
        segment.read_record(4)
    assert (error.value.position, error.value.offset) == (len(good), 3)
    assert str(directory.path) in str(error.value)
    with pytest.raises(ChecksumError):
        segment.find_offset_by_timestamp(5, 0)
    found = segment.find_offset_by_timestamp(7, 0)
    assert found is not None
    assert found.offset == 6


def test_what_a_checksum_does_not_tell(directory: Directory) -> None:
    """A sound checksum over records that make no sense."""
    plain = encode_records([Record(b"value", b"key", timestamp=1)])
    long_key = bytearray(plain)
    long_key[61 + 4] = 0x7E  # a key of 63 bytes
    lz4 = with_checksum(plain[:22] + bytes([3]) + plain[23:])
    unknown = with_checksum(plain[:22] + bytes([6]) + plain[23:])
    for data, error in (
        (with_checksum(bytes(long_key)), RecordOverrunError),
        (lz4, CompressionError),
        (unknown, UnknownCodecError),
    ):
        log_file(directory).write_bytes(data)
        segment = SealedSegment.open(directory, 0)
        with pytest.raises(error) as raised:
            segment.read_record(0)
        assert (raised.value.position, raised.value.offset) == (0, 0)


def test_every_cut_of_a_file_is_told(directory: Directory) -> None:
    data = batch(0, [1]) + batch(1, [2], codec=Codec.LZ4) + batch(2, [3], magic=1)
    ends = [0, *(int(position + size) for position, size in table_of(data).rows[:, :2])]
    for size in range(len(data) + 1):
        log_file(directory).write_bytes(data[:size])
        segment = SealedSegment.open(directory, 0)
        whole = sum(end <= size for end in ends) - 1
        for offset in range(whole):
            record = segment.read_record(offset)
            assert record is not None
            assert record.timestamp == offset + 1
        if size in ends:
            assert segment.next_offset() == whole
            assert segment.read_record(whole) is None
            continue
        for question in (
            segment.next_offset,
            lambda segment=segment, offset=whole: segment.read_record(offset),
            lambda segment=segment, offset=whole: segment.translate_offset(offset),
            lambda segment=segment: segment.find_offset_by_timestamp(9, 0),
        ):
            with pytest.raises(TornBatchError) as error:
                question()
            assert error.value.position == ends[whole]
        seen = SealedSegment.snapshot(directory, 0)
        assert (seen.size, seen.next_offset()) == (ends[whole], whole)


def test_bytes_that_are_no_batch(directory: Directory) -> None:
    data = bytearray(batch(0, [1]) + batch(1, [2]))
    at = len(batch(0, [1]))
    for index, value, error in ((at + 16, 9, UnknownMagicError), (at + 8, 0xFF, CorruptRecordError)):
        broken = bytearray(data)
        broken[index] = value
        log_file(directory).write_bytes(broken)
        segment = SealedSegment.open(directory, 0)
        assert segment.read_record(0) is not None
        with pytest.raises(error):
            segment.read_record(1)
        with pytest.raises(error):
            segment.next_offset()


# Recovery


@pytest.mark.parametrize("seed", range(6))
def test_recovery_keeps_the_batches_before_the_first_bad_one(directory: Directory, seed: int) -> None:
    rng = random.Random(seed)
    batches = random_batches(rng, 0, 30)
    at = rng.randrange(len(batches))
    broken = bytearray(b"".join(batches))
    start = sum(len(each) for each in batches[:at])
    broken[start + rng.randrange(21, len(batches[at]))] ^= 1 << rng.randrange(8)
    log_file(directory).write_bytes(broken)
    segment = opened(directory)
    assert segment.recover(Nothing()) == len(broken) - start
    assert bytes(segment.buffer()) == b"".join(batches[:at])
    assert log_file(directory).stat().st_size == start
    assert segment.index_fault() is None
    for record in decode_records(b"".join(batches[:at])):
        assert segment.read_record(record.offset) == record
    append(segment, batch(segment.next_offset()))


def test_recovery_of_a_damage_that_readers_look_at(directory: Directory) -> None:
    data = b"".join(random_batches(random.Random(1), 0, 40))
    log_file(directory).write_bytes(data + b"\x01" * 9000)
    old = SealedSegment.open(directory, 0)
    view = old.buffer()
    segment = opened(directory)
    assert segment.recover(Nothing()) == 9000
    assert view == data + b"\x01" * 9000


def test_offsets_that_a_segment_cannot_hold_stop_recovery(directory: Directory) -> None:
    for far in (batch(2**31, [1]), batch(2**62, [1])):
        data = batch(0, [1]) + batch(5, [2]) + far
        log_file(directory).write_bytes(data)
        segment = opened(directory)
        with pytest.raises(IndexOffsetOverflowError, match="split the segment"):
            segment.recover(Nothing())
        assert log_file(directory).read_bytes() == data, "nothing is cut"
        assert segment.has_overflow
        segment.abandon()
    for later in (batch(5, [3]), batch(3, [3])):
        log_file(directory).write_bytes(batch(0, [1]) + batch(5, [2]) + later)
        segment = opened(directory)
        with pytest.raises(CorruptRecordError, match="not larger than the one before") as error:
            segment.recover(Nothing())
        assert error.value.position == len(batch(0, [1]) + batch(5, [2]))
        segment.abandon()


class Choosy:
    """A state that finds a batch's records senseless."""

    def __init__(self, bad: int) -> None:
        self.bad = bad
        self.taken: list[int] = []

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        offsets = batches.base_offset.tolist()
        if self.bad in offsets:
            position = int(batches.position[offsets.index(self.bad)])
            raise CorruptRecordError("no sense", position=position)
        self.taken += offsets
        return [AbortedTxn(1, offset, offset, offset) for offset in offsets if offset % 4 == 0]


def test_a_batch_without_sense_is_the_last_that_stays(directory: Directory) -> None:
    data = [batch(i, [NOW_MS + i], size=60) for i in range(10)]
    log_file(directory).write_bytes(b"".join(data))
    segment = opened(directory)
    state = Choosy(bad=6)
    assert segment.recover(state) == len(b"".join(data[7:]))
    assert state.taken == [0, 1, 2, 3, 4, 5]
    assert segment.next_offset() == 7
    assert [txn.last_offset for txn in segment.txn_index.all_aborted_txns()] == [0, 4]
    assert segment.max_timestamp_so_far.offset == 6
    assert segment.index_fault() is None


def test_old_messages_are_none_of_the_states_business(directory: Directory) -> None:
    log_file(directory).write_bytes(batch(0, [1, 2], magic=1) + batch(2, [3]) + batch(3, [4], magic=0))
    segment = opened(directory)
    state = Choosy(bad=-1)
    assert segment.recover(state) == 0
    assert state.taken == [2]


def test_recovery_makes_room_in_an_index_configured_too_small(directory: Directory) -> None:
    log_file(directory).write_bytes(b"".join(batch(i, [i + 1]) for i in range(50)))
    segment = opened(directory, segment_index_bytes=36, index_interval_bytes=0)
    assert segment.recover(Nothing()) == 0
    assert (segment.offset_index.entries, segment.time_index.entries) == (49, 49)
    assert segment.progress.index_full
    assert segment.seal().index_fault() is None


def test_recovery_of_many_batches(directory: Directory) -> None:
    """More than go through the kernels at once: the indexes are as if they had been appended."""
    records = [Record(b"v", timestamp=i) for i in range(9000)]
    data = encode_records(records, max_batch_records=1)
    segment = created(directory, segment_index_bytes=1 << 16)
    append(segment, data)
    segment.close()
    expected = {path.name: path.read_bytes() for path in Path(directory.path).iterdir()}
    segment = opened(directory, segment_index_bytes=1 << 16)
    assert segment.recover(Nothing()) == 0
    assert segment.next_offset() == 9000
    segment.close()
    assert {path.name: path.read_bytes() for path in Path(directory.path).iterdir()} == expected
