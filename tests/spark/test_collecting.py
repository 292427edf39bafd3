"""Planning without the garbage collector, which is as it was before in every case."""

from __future__ import annotations

import gc

import pytest

from tidelog.spark.runtime.collecting import without_collections


def test_collections_wait_and_come_back() -> None:
    with without_collections():
        assert not gc.isenabled()
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_come_back_after_an_error() -> None:
    @without_collections()
    def fails() -> None:
        assert not gc.isenabled()
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fails()
        assert gc.isenabled()


def test_who_has_turned_collections_off_keeps_them_off() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
