"""The configuration of a pipeline: YAML, read and checked as a whole before anything starts.

root: data                     the root directory; paths are relative to the file
spark: local[*]                Spark's master
recover: true                  recover a root that was not closed cleanly; else a step that writes refuses it
steps:                         in order; each has one key, its kind
  - ingest: {source: in, format: parquet, topic: orders, key: id, partitions: 4}
  - verify: {deep: true}
  - compact: {topics: [orders]}
  - retention: {topics: [orders]}
  - trim: {topics: [orders], before_time: 30 days ago}
  - export: {to: out, topics: [orders], values: json, evolve: true}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.manager.publishing.checks import check_topic
from tidelog.manager.upkeep.times import parse_moment
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.source.options import SINK_NAMES
from tidelog.values.decoding import ValueFormat

__all__ = ["PipelineConfig", "Step", "read_config", "sink_options", "trim_bounds"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its kind, and what it was given; paths are absolute."""

    number: int
    kind: str
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As it is called in reports."""
        return f"{self.number}-{self.kind}"


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """A pipeline."""

    path: Path
    root: Path
    steps: tuple[Step, ...]
    spark: str = "local[*]"
    state: Path = field(default=Path())
    """Where it is written down which steps are done."""
    recover: bool = False
    """Recover a root that was not closed cleanly, as a run that was killed may leave it."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A setting: how it is read, and whether it must be there."""

    read: Callable[[Any, Path], Any]
    required: bool = False


def _text(value: Any, base: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a text is expected, not {value!r}")
    return value


def _flag(value: Any, base: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {value!r}")
    return value


def _count(value: Any, base: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"a number of at least 1 is expected, not {value!r}")
    return value


def _offset(value: Any, base: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"an offset of at least 0 is expected, not {value!r}")
    return value


def _moment(value: Any, base: Path) -> str:
    """A time in words; it is read again at each run, so that `7 days ago` moves on."""
    if isinstance(value, date):  # YAML reads a date or a time as one
        value = value.isoformat()
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value, base)
    parse_moment(text, 0)
    return text


def _file(value: Any, base: Path) -> str:
    text = _text(value, base)
    return text if "://" in text else str((base / text).absolute())


def _topic(value: Any, base: Path) -> str:
    check_topic(_text(value, base))
    return str(value)


def _topics(value: Any, base: Path) -> list[str]:
    if isinstance(value, str):
        return [_topic(value, base)]
    if not isinstance(value, list) or not value:
        raise ValueError(f"a list of topics is expected, not {value!r}")
    return [_topic(one, base) for one in value]


def _settings(value: Any, base: Path) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"keys and values are expected, not {value!r}")
    return {str(key): str(one).lower() if isinstance(one, bool) else str(one) for key, one in value.items()}


def _values(value: Any, base: Path) -> str:
    known = [one.value for one in ValueFormat]
    if value not in known:
        raise ValueError(f"one of {', '.join(known)} is expected, not {value!r}")
    return str(value)


_TOP = ("root", "spark", "steps", "state", "recover")
_KINDS: dict[str, dict[str, _Field]] = {
    "ingest": {
        "source": _Field(_file, required=True),
        "format": _Field(_text, required=True),
        "topic": _Field(_topic),
        "key": _Field(_text),
        "value": _Field(_text),
        "timestamp": _Field(_text),
        "partitions": _Field(_count),
        "config": _Field(_settings),
        "options": _Field(_settings),
        "compression": _Field(_text),
        "name": _Field(_text),
    },
    "verify": {"deep": _Field(_flag)},
    "compact": {"topics": _Field(_topics), "from_start": _Field(_flag)},
    "retention": {"topics": _Field(_topics)},
    "trim": {"topics": _Field(_topics), "before_time": _Field(_moment), "before": _Field(_offset)},
    "export": {
        "to": _Field(_file, required=True),
        "topics": _Field(_topics),
        "values": _Field(_values),
        "schema": _Field(_text),
        "evolve": _Field(_flag),
    },
}


def read_config(path: str | Path) -> PipelineConfig:
    """Read and check a pipeline's configuration; InvalidInputError says where it is wrong."""
    import yaml

    file = Path(path).absolute()
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file} is no YAML: {error}") from None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{file}: root and steps are expected")
    unknown = set(content) - set(_TOP)
    if unknown:
        first = sorted(map(str, unknown))[0]
        raise InvalidInputError(f"{file}: there is no {first!r}; there are {', '.join(_TOP)}")
    base = file.parent
    root = Path(_read(file, "root", content.get("root"), _file, base))
    master = _read(file, "spark", content.get("spark", "local[*]"), _text, base)
    default = root.parent / ".tidelog-pipeline" / f"{file.stem}.json"
    state = Path(_read(file, "state", content.get("state", str(default)), _file, base))
    recover = _read(file, "recover", content.get("recover", False), _flag, base)
    listed = content.get("steps")
    if not isinstance(listed, list) or not listed:
        raise InvalidInputError(f"{file}: steps: a list of steps is expected")
    steps = tuple(_step(file, number, one, base) for number, one in enumerate(listed, 1))
    for step in steps:
        _check(file, step, root)
    return PipelineConfig(file, root, steps, master, state, recover)


def _read(file: Path, where: str, value: Any, read: Callable[[Any, Path], Any], base: Path) -> Any:
    try:
        return read(value, base)
    except ValueError as error:
        raise InvalidInputError(f"{file}: {where}: {error}") from None


def _step(file: Path, number: int, content: Any, base: Path) -> Step:
    where = f"step {number}"
    if isinstance(content, str):
        content = {content: None}
    if not isinstance(content, dict) or len(content) != 1:
        raise InvalidInputError(f"{file}: {where}: one of {', '.join(_KINDS)} is expected")
    kind, given = next(iter(content.items()))
    fields = _KINDS.get(kind)
    if fields is None:
        raise InvalidInputError(f"{file}: {where}: there is no {kind!r}; there are {', '.join(_KINDS)}")
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise InvalidInputError(f"{file}: {where}, {kind}: settings are expected, not {given!r}")
    for name in given:
        if name not in fields:
            raise InvalidInputError(
                f"{file}: {where}, {kind}: there is no {name!r}; there are {', '.join(fields)}"
            )
    for name, one in fields.items():
        if one.required and name not in given:
            raise InvalidInputError(f"{file}: {where}, {kind}: {name} is missing")
    settings = {
        name: _read(file, f"{where}, {kind}, {name}", value, fields[name].read, base)
        for name, value in given.items()
    }
    return Step(number, kind, settings)


def _check(file: Path, step: Step, root: Path) -> None:
    """What can be told of a step without running it."""
    where = f"{file}: step {step.number}, {step.kind}"
    if step.kind == "ingest":
        source = step.settings["source"]
        if "://" not in source and not any(sign in source for sign in "*?[{") and not Path(source).exists():
            raise InvalidInputError(f"{where}: source {source} does not exist")
        known = {name.lower() for name in (*LogConfig.keys(), *SINK_NAMES)}
        for name in step.settings.get("config", {}):
            if name.lower() not in known:
                raise InvalidInputError(f"{where}, config: there is no {name!r}")
        name = step.settings.get("name", "ingest")
        if "/" in name or name in (".", ".."):
            raise InvalidInputError(
                f"{where}: {name!r} is not a name for an ingest: it becomes the name of a directory"
            )
        try:
            SinkOptions.parse(sink_options(step, root))
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
    if step.kind == "export" and step.settings.get("values") != "json":
        for name in ("schema", "evolve"):
            if step.settings.get(name):
                raise InvalidInputError(f"{where}: {name} means something for values: json only")
    if step.kind == "trim":
        if ("before_time" in step.settings) == ("before" in step.settings):
            raise InvalidInputError(f"{where}: say up to where: one of before_time and before is expected")
        if "before" in step.settings and "topics" not in step.settings:
            raise InvalidInputError(f"{where}: before is an offset: name the topics that it is for")


def trim_bounds(step: Step, now_ms: int) -> dict[str, int]:
    """Up to where a trim step trims, as `spark.trim` takes it."""
    settings = step.settings
    if "before" in settings:
        return {"before_offset": settings["before"]}
    return {"before_ms": parse_moment(settings["before_time"], now_ms)}


def sink_options(step: Step, root: Path) -> dict[str, str]:
    """The options of the sink that an ingest step asks for."""
    settings = step.settings
    options = {"path": str(root), **settings.get("config", {})}
    for name, option in (
        ("topic", "topic"),
        ("partitions", "partitions"),
        ("compression", "kafka.compression.type"),
    ):
        if name in settings:
            options[option] = str(settings[name])
    return options
