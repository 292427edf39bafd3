"""What is salvaged of a stock broker's damaged disk: a stock broker boots on it and serves the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.manager.stock import TOPICS, consumed, fill
from tidelog.manager.upkeep.salvaging import salvage_partitions
from tidelog.manager.verification import Kind, verify_root
from tidelog.scanning.partitions import find_partitions
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_stock_broker_boots_on_what_was_saved(oracle: Oracle, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with oracle.broker(source) as broker:
        written = fill(broker.address, brokers=1)
        broker.kill()
    log = source / "one-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[5000:9000] = bytes(4000)
    log.write_bytes(data)
    done = list(salvage_partitions(LOCAL, find_partitions(str(source)), str(target)))
    losses = [loss for one in done for loss in one.losses]
    assert {(loss.topic, loss.partition) for loss in losses} == {("one", 0)}
    assert [one for one in verify_root(LOCAL, str(target), deep=True) if one.kind is Kind.DAMAGE] == []
    lost = sum((loss.end_offset or 0) - loss.first_offset for loss in losses)
    with oracle.broker(target) as broker:
        for topic in TOPICS:
            found = consumed(broker.address, topic, len(written[topic]), group=f"after-{topic}")
            if topic == "one":
                assert found <= written[topic]
                assert len(found) == len(written[topic]) - lost
            elif topic == "keys":
                assert written[topic] <= found
            else:
                assert found == written[topic]
