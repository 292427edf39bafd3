"""Writes that are found half published when a root is opened, and whose staged data is gone."""

from __future__ import annotations

import pytest

from tests.manager.publishing import ROOT, check_state, steps_of_a_commit, steps_with_intent
from tidelog.records.batches import scan_batches
from tidelog.storage import read_file


@pytest.mark.parametrize("hole", [False, True])
def test_a_write_without_its_staging_is_over_if_all_of_it_is_there(hole: bool) -> None:
    """A power cut may leave a segment whose predecessor has lost its last batches."""
    fs, start, before = steps_of_a_commit(False)
    after = fs.crash(max(steps_with_intent(fs, start)), kept="all")
    after.unlink("/staging/w/task-0.json")
    if hole:
        logs = sorted(one.name for one in after.list(f"{ROOT}/t-0") if one.name.endswith(".log"))
        path = f"{ROOT}/t-0/{logs[-2]}"
        batches = scan_batches(read_file(after, path)).require()
        file = after.open(path, writable=True)
        file.truncate(int(batches.position[-1]))
        file.close()
    assert check_state(after, before, False) != hole
