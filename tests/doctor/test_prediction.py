"""What doctor says Kafka's loader will do, against Kafka's log class, over random damages."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden import GOLDEN
from tests.manager.damage import DATA_CONFIG, damage
from tests.manager.test_recovery import NAMES, NOW_MS, settled_epochs
from tidelog.config import LogConfig
from tidelog.doctor.changes import ChangeKind
from tidelog.doctor.forecast import Forecast, Start, forecast_load
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
CONFIG = LogConfig.from_properties(DATA_CONFIG)


def damage_index(directory: Path, dice: random.Random) -> str:
    """Hurt one of the index files; each second time one of the last segment, if it has any."""
    last = max(directory.glob("*.log")).stem
    files = [path for path in sorted(directory.iterdir()) if path.suffix in SUFFIXES[1:]]
    lasts = [path for path in files if path.stem == last]
    file = dice.choice(lasts if lasts and dice.random() < 0.5 else files)
    data = bytearray(file.read_bytes())
    kind = dice.choice(["gone", "cut", "zeros", "noise", "empty", "flip"])
    match kind:
        case "gone":
            file.unlink()
            return f"{file.name} gone"
        case "cut":
            del data[len(data) - min(len(data), dice.randrange(1, 20)) :]
        case "zeros":
            data += bytes(8 * dice.randrange(1, 9))
        case "noise":
            data = bytearray(dice.randbytes(len(data)))
        case "flip" if data:
            data[dice.randrange(max(len(data) - 12, 0), len(data))] ^= 1 << dice.randrange(8)
        case _:
            data.clear()
    file.write_bytes(data)
    return f"{kind} {file.name}"


def damage_header(directory: Path, dice: random.Random) -> str:
    """Flip a bit in the header of a batch, often one that no checksum covers."""
    logs = [path for path in sorted(directory.glob("*.log")) if path.stat().st_size]
    file = dice.choice([logs[-1], dice.choice(logs)])
    data, positions, position = bytearray(file.read_bytes()), [], 0
    while position < len(data):
        positions.append(position)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    begin = dice.choice([positions[-1], dice.choice(positions)])
    at = dice.choice(
        [dice.randrange(8), dice.randrange(8, 12), dice.randrange(12, 17), dice.randrange(17, 61)]
    )
    data[begin + at] ^= 1 << dice.randrange(8)
    file.write_bytes(data)
    return f"byte {at} of the batch at {begin} of {file.name}"


def predicted(directory: Path, forecast: Forecast) -> dict[str, bytes]:
    """The files that the forecast leaves."""
    found = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    for one in forecast.changes:
        name = Path(one.path).name
        match one.kind:
            case ChangeKind.REMOVE:
                del found[name]
            case ChangeKind.CUT:
                found[name] = found[name][: one.size]
            case ChangeKind.WRITE:
                found[name] = one.data
            case ChangeKind.MOVE:
                assert one.source is not None
                found[name] = found.pop(Path(one.source).name)[: one.size]
    return found


def compare(oracle: Oracle, tmp_path: Path, seed: int, count: int) -> int:
    """How many damaged logs Kafka loads, each exactly as it was foretold."""
    dice = random.Random(seed)
    cases = []
    for number in range(count):
        source = GOLDEN / "clean" / dice.choice(NAMES)
        ours = Path(shutil.copytree(source, tmp_path / "ours" / f"t-{number}"))
        bases = sorted(int(log.stem) for log in ours.glob("*.log"))
        point = dice.choice([0, dice.choice(bases), dice.choice(bases) + dice.randrange(100), 10**6])
        what = []
        if dice.random() < 0.3:
            what.append(damage_header(ours, dice))
        elif dice.random() < 0.6:
            what.append(damage(ours, dice.choice([0, point, 10**9]), dice))
        if not what or dice.random() < 0.4:
            what.append(damage_index(ours, dice))
        theirs = Path(shutil.copytree(ours, tmp_path / "kafka" / ours.name))
        start = Start(dice.random() < 0.4, point, 333 if "trimmed" in source.name else 0, None, NOW_MS)
        cases.append((source.name, what, ours, theirs, start))
    return foretold(oracle, cases)


Case = tuple[str, list[str], Path, Path, Start]
"""A golden partition, what was done to it, two copies of it, and how it is opened."""


def foretold(oracle: Oracle, cases: Sequence[Case]) -> int:
    """How many of the logs Kafka loads, each exactly as it was foretold."""
    asked = [
        {
            "dir": str(theirs),
            "config": dict(DATA_CONFIG),
            "log_start": start.log_start_offset,
            "recovery_point": start.recovery_point,
            "now_ms": NOW_MS,
            "clean": start.clean,
        }
        for _, _, _, theirs, start in cases
    ]
    answers = oracle.programs.ask("tidelog.oracle.Recover", {"cases": asked})
    loaded = 0
    for (name, what, ours, theirs, start), answer in zip(cases, answers, strict=True):
        told = (name, what, start, answer)
        forecast = forecast_load(LOCAL, str(ours), CONFIG, start)
        assert (forecast.error is not None) == ("threw" in answer), (*told, forecast.error)
        if "threw" in answer:
            continue
        loaded += 1
        assert forecast.log_start_offset == answer["log_start_offset"], told
        assert forecast.log_end_offset == answer["log_end_offset"], told
        assert forecast.last_stable_offset == answer["last_stable_offset"], told
        left = predicted(ours, forecast)
        # Of a log that was closed cleanly, the last time index is written at its next close, not when loaded.
        aside = f"{max(answer['base_offsets']):020}.timeindex" if start.clean else ""
        for suffix in SUFFIXES:
            kafkas = {path.name: path.read_bytes() for path in theirs.glob(f"*{suffix}")}
            ours_then = {one: data for one, data in left.items() if one.endswith(suffix)}
            for files in (kafkas, ours_then):
                files.pop(aside, None)
            assert ours_then == kafkas, (*told, suffix)
        epochs = "leader-epoch-checkpoint"
        settled = settled_epochs(
            (theirs / epochs).read_text(), forecast.log_start_offset, forecast.log_end_offset
        )
        assert left[epochs].decode() == settled, told
    return loaded


def test_the_forecast_is_what_kafka_does(oracle: Oracle, tmp_path: Path) -> None:
    assert compare(oracle, tmp_path, seed=1, count=40) > 30


def test_a_marker_with_an_offset_of_the_next_segment_ends_its_transaction(
    oracle: Oracle, tmp_path: Path
) -> None:
    source = GOLDEN / "clean" / "golden-txncompact-0"
    ours = Path(shutil.copytree(source, tmp_path / "ours" / "t-0"))
    with (ours / "00000000000000000400.log").open("r+b") as file:
        file.seek(6578 + 7)  # the lowest byte of the base offset of a marker, the last batch
        assert file.read(1) == (644).to_bytes(2)[1:]
        file.seek(6578 + 7)
        file.write((646).to_bytes(2)[1:])
    theirs = Path(shutil.copytree(ours, tmp_path / "kafka" / ours.name))
    start = Start(clean=False, recovery_point=0, log_start_offset=0, high_watermark=None, now_ms=NOW_MS)
    assert foretold(oracle, [(source.name, ["offset"], ours, theirs, start)]) == 1


def test_a_last_offset_that_no_index_can_hold_is_loaded(oracle: Oracle, tmp_path: Path) -> None:
    """Kafka meets the offset when it closes the log, not when it loads it."""
    source = GOLDEN / "clean" / "golden-appendtime-0"
    cases: list[Case] = []
    for number, clean in enumerate((True, False)):
        ours = Path(shutil.copytree(source, tmp_path / "ours" / f"t-{number}"))
        data = bytearray((ours / "00000000000000000000.log").read_bytes())
        data[31680 + 1] ^= 16  # the base offset of the last batch
        (ours / "00000000000000000000.log").write_bytes(data)
        (ours / "00000000000000000000.timeindex").write_bytes(b"")
        theirs = Path(shutil.copytree(ours, tmp_path / "kafka" / ours.name))
        cases.append((source.name, ["far offset"], ours, theirs, Start(clean, 0, 0, None, NOW_MS)))
    assert foretold(oracle, cases) == 2


SWAPS = {
    "few": lambda log: b"1234",
    "empty": lambda log: b"",
    "noise": lambda log: random.Random(1).randbytes(500),
    "zeros": lambda log: bytes(500),
    "cut": lambda log: log[:7000],
    "cut-in-a-header": lambda log: log[:30],
    "flipped": lambda log: log[:5000] + bytes([log[5000] ^ 1]) + log[5001:],
}


def test_a_damaged_replacement_is_taken_as_kafka_takes_it(oracle: Oracle, tmp_path: Path) -> None:
    """Kafka checks nothing of a `.swap` segment before it takes the place of others."""
    cases: list[Case] = []
    source = GOLDEN / "clean" / "golden-none-0"
    for number, ((name, made), base, clean) in enumerate(product(SWAPS.items(), (0, 240), (True, False))):
        ours = Path(shutil.copytree(source, tmp_path / "ours" / f"t-{number}"))
        log = ours / f"{base:020}.log"
        log.with_suffix(".log.swap").write_bytes(made(log.read_bytes()))
        theirs = Path(shutil.copytree(ours, tmp_path / "kafka" / ours.name))
        start = Start(clean, 10**6 if clean else 0, 0, None, NOW_MS)
        cases.append((source.name, [f"{name} at {base}"], ours, theirs, start))
    assert foretold(oracle, cases) >= len(cases) - 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 41])
def test_many_forecasts_are_what_kafka_does(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    assert compare(oracle, tmp_path, seed=seed, count=160) > 120
