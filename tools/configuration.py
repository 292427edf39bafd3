"""Makes docs/configuration.md of the rows of `LogConfig` and `BrokerConfig`: run it when they change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.config import ConfigKey, LogConfig
from tidelog.manager.brokerconfig import BrokerConfig, broker_keys

TARGET = Path(__file__).parents[1] / "docs" / "configuration.md"

_INTRODUCTION = """\
# Configuration

Keys, defaults and bounds are those of Kafka 4.3. This page is generated from the tables in the code by
`python tools/configuration.py`; `tidelog config --list` prints the first one.

## Topics

Set a key when you create a topic (`store.create_topic(name, config={...})`), later with `store.alter_config`,
or with `tidelog config ROOT --topic NAME --set KEY=VALUE`. A key that is not set follows the broker key in
`server.properties`; of several broker keys, the first one that is set applies.

"""

_BROKER = """
## The broker

Read from `server.properties` (`tidelog.open(roots, config="server.properties")`), besides `log.dirs`,
`log.dir`, `node.id` and the broker keys above. Other keys are ignored.

"""


def render() -> str:
    """The page."""
    topics = (
        (*_common(row), "<br>".join(f"`{key}`" for key in broker_keys(row.key)), row.doc)
        for row in LogConfig.keys().values()
        if not row.internal
    )
    broker = ((*_common(row), row.doc) for row in BrokerConfig.keys().values())
    return "".join(
        [
            _INTRODUCTION,
            *_table(("key", "type", "default", "valid", "the broker's", "what it does"), topics),
            _BROKER,
            *_table(("key", "type", "default", "valid", "what it does"), broker),
        ]
    )


def _common(row: ConfigKey) -> tuple[str, str, str, str]:
    return f"`{row.key}`", row.type.value, row.default_text or "", row.valid_values


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(titles)
    yield f"| {' | '.join(titles)} |\n"
    yield f"|{'---|' * len(titles)}\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"


if __name__ == "__main__":
    TARGET.write_text(render())
