"""What Prometheus is told."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import confluent_kafka
import pytest

from tests.waiting import PATIENCE_S
from tidelog.broker.metrics import Metrics
from tidelog.broker.running import BrokerOptions, BrokerThread
from tidelog.broker.settings import Endpoint

HERE = Endpoint("127.0.0.1", 0)


def test_times_are_counted_in_growing_buckets() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.003, 0.003, 100.0):
        metrics.took("Fetch", seconds)
    lines = list(metrics.lines(3))
    assert "tidelog_broker_connections 3" in lines
    assert 'tidelog_broker_requests_total{api="Fetch"} 4' in lines
    assert 'tidelog_broker_request_seconds_bucket{api="Fetch",le="0.0005"} 1' in lines
    assert 'tidelog_broker_request_seconds_bucket{api="Fetch",le="0.005"} 3' in lines
    assert 'tidelog_broker_request_seconds_bucket{api="Fetch",le="+Inf"} 4' in lines


def test_prometheus_asks(tmp_path: Path) -> None:
    options = BrokerOptions(roots=[str(tmp_path)], listen=[HERE], metrics=HERE)
    with BrokerThread(options) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(5):
            producer.produce("t", b"v")
        assert producer.flush(20) == 0
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 3)], asynchronous=False)
        where = f"http://{broker.server.metrics_endpoint}"
        with urllib.request.urlopen(f"{where}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{where}/other", timeout=PATIENCE_S)
        consumer.close()
    lines = text.splitlines()
    assert 'tidelog_log_end_offset{topic="t",partition="0"} 5' in lines
    assert 'tidelog_group_lag{group="g",topic="t",partition="0"} 2' in lines
    assert any(line.startswith('tidelog_broker_requests_total{api="Produce"}') for line in lines)
    assert all(line.startswith(("#", "tidelog_")) for line in lines)
