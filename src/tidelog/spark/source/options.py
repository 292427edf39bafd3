"""Options of the source: those of Spark's Kafka connector under its names, and a few of our own.

    path                        root or partition directories, globs, URLs; a JSON list for several
    assign | subscribe | subscribePattern      which topics; without any, all but Kafka's internal ones
    startingTimestamp, startingOffsetsByTimestamp, startingOffsets      the first of these that is given
    endingTimestamp, endingOffsetsByTimestamp, endingOffsets            likewise; exclusive
    startingOffsetsByTimestampStrategy         error | latest, where no record is that young
    failOnDataLoss, includeHeaders, kafka.isolation.level
    minPartitions, maxRecordsPerPartition, maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay
    ours: maxBytesPerPartition, upTo (logEnd | highWatermark), includeBatchFacts, includeControlRecords,
    corrupt (fail | stop | skip), table (records | losses),
    and those of `value_options`

Names are case-insensitive. Options that only a connection to a broker gives a meaning are skipped, as are
keys that a catalog adds to its tables; a name that is nearly one of ours is taken for a slip and refused.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidelog.errors import InvalidInputError
from tidelog.scanning.losses import Corrupt
from tidelog.spark.source import value_options
from tidelog.spark.source.java_patterns import java_pattern
from tidelog.spark.source.unsupported import NOT_FOR_READS, refuse_unsupported
from tidelog.spark.source.value_options import values_of
from tidelog.types import TopicPartition
from tidelog.values.spec import Values

__all__ = [
    "EARLIEST",
    "LATEST",
    "SINK_NAMES",
    "Assigned",
    "Bound",
    "Everything",
    "Matching",
    "Offsets",
    "OptionReader",
    "Selection",
    "SourceOptions",
    "Subscribed",
    "Timestamp",
    "Timestamps",
    "bad_option",
    "refuse_slips",
]

DEFAULT_MAX_BYTES_PER_PARTITION = 128 << 20
LATEST_OFFSET, EARLIEST_OFFSET = -1, -2
"""The connector's numbers for these, in a JSON of offsets and in place of a timestamp."""

_NAMES = (
    "path",
    "paths",
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "includeBatchFacts",
    "includeControlRecords",
    "kafka.isolation.level",
    "upTo",
    "corrupt",
    "table",
    *value_options.NAMES,
)
_WITHOUT_MEANING = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
SINK_NAMES = (
    *(
        "path",
        "topic",
        "partitions",
        "writeId",
        "writeBatch",
        "staging",
        "lockTimeout",
        "recover",
        "serverProperties",
    ),
    "kafka.compression.type",
)
"""The options of a write (`sink.options`). Reading passes over them: a session may set them for both."""
_SPELLING = {name.lower(): name for name in _NAMES}
_DELAY = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d)?\s*")
_UNIT_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_LONG = (1 << 63) - 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Everything:
    """All topics but Kafka's internal ones; those too where `path` is their own directory."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The topics named."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """The topics in whose name a pattern is found (`java_patterns`), internal ones left out."""

    pattern: str

    def takes(self, topic: str) -> bool:
        """Whether it is found in a topic's name."""
        return java_pattern(self.pattern).search(topic) is not None


@dataclass(frozen=True, slots=True)
class Assigned:
    """The partitions named."""

    partitions: frozenset[TopicPartition]


Selection = Everything | Subscribed | Matching | Assigned


@dataclass(frozen=True, slots=True)
class Named:
    """`earliest` or `latest`."""

    name: str


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time (ms) for all partitions."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Timestamps:
    """A time (ms) for each partition."""

    timestamps: Mapping[TopicPartition, int]


EARLIEST, LATEST = Named("earliest"), Named("latest")
Bound = Named | Offsets | Timestamp | Timestamps


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options, parsed and checked as far as they can be without looking at the files."""

    paths: tuple[str, ...]
    selection: Selection = Everything()
    starting: Bound | None = None
    """None if none was given: `earliest` in a batch, `latest` in a stream."""

    starting_option: str = "startingOffsets"
    """The option that `starting` comes from, for messages."""

    starting_may_be_late: bool = False
    """A time that no record reaches means `latest`, not an error."""

    ending: Bound | None = None
    ending_option: str = "endingOffsets"
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int = DEFAULT_MAX_BYTES_PER_PARTITION
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    include_headers: bool = False
    include_batch_facts: bool = False
    include_control_records: bool = False
    committed_only: bool = False
    up_to_high_watermark: bool = False
    corrupt: Corrupt = Corrupt.FAIL
    """What reading does at damage; SKIP too where `failOnDataLoss` is false."""
    table: str = "records"
    """What the rows are: records, or what is lost of them."""
    values: Values | None = None
    """How values are decoded; None: they are bytes."""
    keys: Values | None = None
    given: frozenset[str] = field(default_factory=frozenset)
    """Names of the options that were given, as documented."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the options; `InvalidInputError` names the one at fault."""
        values = {key.lower(): value for key, value in options.items()}
        refuse_slips(values)
        refuse_unsupported(values, NOT_FOR_READS)
        given = OptionReader(values)
        starting, starting_option = given.bound("starting")
        ending, ending_option = given.bound("ending")
        _check_order(starting, ending)
        minimum = given.count("minOffsetsPerTrigger")
        maximum = given.count("maxOffsetsPerTrigger")
        if minimum is not None and maximum is not None and minimum > maximum:
            raise bad_option(
                "minOffsetsPerTrigger", f"{minimum} is more than maxOffsetsPerTrigger, {maximum}"
            )
        strategy = given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        isolation = given.choice(
            "kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted"
        )
        fail_on_data_loss = given.flag("failOnDataLoss", True)
        return cls(
            paths=given.paths(),
            selection=given.selection(),
            starting=starting,
            starting_option=starting_option,
            starting_may_be_late=strategy == "latest",
            ending=ending,
            ending_option=ending_option,
            fail_on_data_loss=fail_on_data_loss,
            min_partitions=given.count("minPartitions"),
            max_records_per_partition=given.count("maxRecordsPerPartition"),
            max_bytes_per_partition=given.count("maxBytesPerPartition") or DEFAULT_MAX_BYTES_PER_PARTITION,
            max_offsets_per_trigger=maximum,
            min_offsets_per_trigger=minimum,
            max_trigger_delay_ms=given.delay("maxTriggerDelay", "15m"),
            include_headers=given.flag("includeHeaders", False),
            include_batch_facts=given.flag("includeBatchFacts", False),
            include_control_records=given.flag("includeControlRecords", False),
            committed_only=isolation == "read_committed",
            corrupt=_corrupt(given, fail_on_data_loss),
            table=given.choice("table", ("records", "losses"), "records"),
            values=values_of(values, "value"),
            keys=values_of(values, "key"),
            up_to_high_watermark=given.choice("upTo", ("logEnd", "highWatermark"), "logEnd") != "logEnd",
            given=frozenset(_SPELLING[key] for key in values if key in _SPELLING),
        )

    def require(self, kind: str, forbidden: Iterable[str]) -> None:
        """Refuse options that mean nothing in a `kind` of query."""
        for name in forbidden:
            if name in self.given:
                raise bad_option(name, f"not valid in a {kind} query")


class OptionReader:
    """The options as strings, by lower-case name, and how to read one."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def _read(self, name: str, read: Callable[[str], T]) -> T | None:
        """The option's value by `read`, None if it was not given; a ValueError is told as the option's."""
        text = self._values.get(name.lower())
        if text is None:
            return None
        try:
            return read(text)
        except (ValueError, TypeError, KeyError) as error:
            raise bad_option(name, f"{error}") from error

    def paths(self) -> tuple[str, ...]:
        """The directories given."""
        many = self._read("paths", _path_list)
        one = self._read("path", _path_list)
        paths = (many or ()) + (one or ())
        if not paths:
            raise bad_option("path", "name a root or partition directory: .load(path), .option('path', ...)")
        return paths

    def selection(self) -> Selection:
        """Which topics are meant."""
        names = [n for n in ("assign", "subscribe", "subscribePattern") if n.lower() in self._values]
        if len(names) > 1:
            raise bad_option(names[1], f"only one of {' and '.join(names)} can be given")
        return (
            self._read("assign", lambda text: Assigned(frozenset(_assignment(text))))
            or self._read("subscribe", lambda text: Subscribed(_topics(text)))
            or self._read("subscribePattern", lambda text: Matching(java_pattern(text).pattern))
            or Everything()
        )

    def bound(self, side: str) -> tuple[Bound | None, str]:
        """The bound on one side and the option it comes from; all are read, the most particular counts."""
        readers: tuple[tuple[str, Callable[[str], Bound]], ...] = (
            (f"{side}Timestamp", lambda text: Timestamp(_whole(text, "a timestamp in ms", EARLIEST_OFFSET))),
            (
                f"{side}OffsetsByTimestamp",
                lambda text: Timestamps(_by_partition(text, "a timestamp", EARLIEST_OFFSET)),
            ),
            (f"{side}Offsets", _offsets_bound),
        )
        found = [(self._read(name, read), name) for name, read in readers]
        return next(((bound, name) for bound, name in found if bound is not None), (None, f"{side}Offsets"))

    def text(self, name: str) -> str | None:
        """The option as it is; None if it was not given."""

        def read(text: str) -> str:
            if not text.strip():
                raise ValueError("must not be empty")
            return text.strip()

        return self._read(name, read)

    def flag(self, name: str, default: bool) -> bool:
        """A yes or no."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of a few words."""

        def read(text: str) -> str:
            for value in allowed:
                if text.strip().lower() == value.lower():
                    return value
            raise ValueError(f"must be {' or '.join(allowed)}, not {text!r}")

        return self._read(name, read) or default

    def count(self, name: str) -> int | None:
        """A number of at least 1; None if it was not given."""
        return self._read(name, lambda text: _whole(text, "a number", 1))

    def number(self, name: str) -> int | None:
        """A number of at least 0; None if it was not given."""
        return self._read(name, lambda text: _whole(text, "a number", 0))

    def delay(self, name: str, default: str) -> int:
        """A time in ms."""
        given = self._read(name, _delay)
        return _delay(default) if given is None else given


def bad_option(option: str, reason: str) -> InvalidInputError:
    """The error for an option."""
    return InvalidInputError(f"option {option}: {reason}")


def refuse_slips(values: Mapping[str, str], names: Iterable[str] = _NAMES) -> None:
    """Refuse names that are nearly one of ours: the connector would not have known them either."""
    spelling = {name.lower(): name for name in names}
    known = {*_SPELLING, *spelling, *(name.lower() for name in (*_WITHOUT_MEANING, *SINK_NAMES))}
    for key in values:
        if key in known or key.startswith(
            ("option.", value_options.REGISTRY)
        ):  # a catalog's copy of an option
            continue
        if key.startswith("kafka.") and not key.startswith("kafka.isol"):
            continue
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.85)
        if close:
            raise bad_option(
                key, f"there is no such option; did you mean {spelling.get(close[0], close[0])}?"
            )


def _corrupt(given: OptionReader, fail_on_data_loss: bool) -> Corrupt:
    default = Corrupt.FAIL if fail_on_data_loss else Corrupt.SKIP
    return Corrupt(given.choice("corrupt", tuple(one.value for one in Corrupt), default.value))


def _check_order(starting: Bound | None, ending: Bound | None) -> None:
    """Refuse bounds that cross, or that can hold nothing."""
    if ending == EARLIEST:
        raise bad_option("endingOffsets", "cannot be earliest: nothing lies before it")
    if isinstance(ending, Offsets) and EARLIEST_OFFSET in ending.offsets.values():
        raise bad_option("endingOffsets", f"cannot be earliest ({EARLIEST_OFFSET}): nothing lies before it")
    if isinstance(starting, Offsets) and isinstance(ending, Offsets):
        for name, first in starting.offsets.items():
            last = ending.offsets.get(name, LATEST_OFFSET)
            if 0 <= last < first:
                raise bad_option("endingOffsets", f"{last} for {name} lies before startingOffsets, {first}")
    if (
        isinstance(starting, Timestamp)
        and isinstance(ending, Timestamp)
        and 0 <= ending.timestamp < starting.timestamp
    ):
        raise bad_option("endingTimestamp", f"{ending.timestamp} lies before {starting.timestamp}")


def _path_list(text: str) -> tuple[str, ...]:
    if not text.strip().startswith("["):
        if not text.strip():
            raise ValueError("must not be empty")
        return (text.strip(),)
    try:
        paths = json.loads(text)
    except json.JSONDecodeError:
        return (text.strip(),)  # a glob
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise ValueError("a list of paths must hold strings")
    return tuple(paths)


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise ValueError(f"no topic in {text!r}")
    return topics


def _assignment(text: str) -> list[TopicPartition]:
    found = []
    for topic, numbers in _json_object(text, '{"topic": [0, 1]}').items():
        if not isinstance(numbers, list) or not all(_is_whole(number) and number >= 0 for number in numbers):
            raise ValueError(f"{topic!r} must have a list of partition numbers")
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise ValueError("no partition is named")
    return found


def _offsets_bound(text: str) -> Bound:
    name = text.strip().lower()
    if name in ("earliest", "latest"):
        return EARLIEST if name == "earliest" else LATEST
    return Offsets(_by_partition(text, "an offset (-1 for latest, -2 for earliest)", EARLIEST_OFFSET))


def _by_partition(text: str, what: str, least: int) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _json_object(text, '{"topic": {"0": 23, "1": -1}}').items():
        if not isinstance(numbers, dict):
            raise ValueError(f"{topic!r} must have an object of partition numbers")
        for partition, number in numbers.items():
            name = TopicPartition(topic, _whole(partition, "a partition number", 0))
            if not _is_whole(number) or not least <= number <= _MAX_LONG:
                raise ValueError(f"{number!r} for {name} is not {what}")
            found[name] = number
    if not found:
        raise ValueError("no partition is named")
    return found


def _json_object(text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON such as {example}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"must be a JSON object such as {example}, not {text!r}")
    return found


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _whole(text: str, what: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"must be {what}, not {text!r}") from None
    if not least <= number <= _MAX_LONG:
        raise ValueError(f"must be {least} or more, not {number}")
    return number


def _delay(text: str) -> int:
    found = _DELAY.fullmatch(text.lower())
    if found is None:
        raise ValueError(f"must be a time such as 500ms, 30s or 15m, not {text!r}")
    return int(int(found[1]) * _UNIT_MS[found[2] or "ms"])
