"""Questions that come while a mapping is let go of: that runs other code, and with it other threads."""

from __future__ import annotations

import mmap
import random
import weakref

import pytest

from tests.kernels_twin import TWINS, twin
from tests.segment.crafting import random_batches
from tidelog.kernels import lookup

LOG = b"".join(random_batches(random.Random(1), 0, 5, magic=2))


@pytest.mark.parametrize("kernel", TWINS)
@pytest.mark.parametrize("how", ["reset", "reset to nothing", "remap"])
def test_a_question_while_a_mapping_is_let_go_of(kernel: str, how: str) -> None:
    made = (lookup if kernel == TWINS[0] else twin("lookup")).LogBytes(0, len(LOG))
    memory = mmap.mmap(-1, len(LOG))
    memory[:] = LOG
    made.remap(memoryview(memory))
    answers = []

    def ask(_: object) -> None:
        answers.append((made.find_batch(0, 1 << 60, 0)[0], made.find_record(0, 1 << 60, 0)[0]))
        answers.append((made.walk(0, 1 << 60)[0], made.view()))

    watching = weakref.ref(memory, ask)
    del memory
    if how == "remap":
        made.remap(memoryview(LOG))
        assert answers == [(0, 0), (0, memoryview(LOG))]
    elif how == "reset":
        made.reset(len(LOG))
        assert answers == [(lookup.UNMAPPED, lookup.UNMAPPED), (lookup.UNMAPPED, None)]
    else:
        made.reset(0)
        assert answers == [(lookup.END, lookup.END), (0, memoryview(b""))]
    assert watching() is None
