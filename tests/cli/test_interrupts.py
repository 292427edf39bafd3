"""Ctrl-C where it suits the work."""

from __future__ import annotations

import os
import signal

import pytest

from tidelog.cli.interrupts import interruptible


class PressedWhileItGoes:
    """Ctrl-C comes while Python removes this: a KeyboardInterrupt would be dropped here."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def pressed_once() -> None:
    with interruptible() as check:
        check()
        PressedWhileItGoes()
        check()


def pressed_twice() -> None:
    with interruptible():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second one was not heard")


def test_an_interrupt_is_heard_wherever_it_comes() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pressed_once()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_one_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt):
        pressed_twice()
