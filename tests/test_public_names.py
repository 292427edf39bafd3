"""What `import tidelog` gives: names at top level, found when they are asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import tidelog
from tidelog.lazy import LazyModule

PUBLIC = {
    "Codec",
    "Header",
    "Log",
    "Partition",
    "Record",
    "Store",
    "Topic",
    "TopicPartition",
    "Values",
    "errors",
    "groups",
    "open",
    "plot",
    "scan",
    "transactions",
}
LAZY = ("cleanup", "index", "log", "manager", "records", "scanning", "segment")


def test_dir_tells_what_is_there() -> None:
    assert {name for name in dir(tidelog) if not name.startswith("__")} == PUBLIC
    assert set(tidelog.__all__) == PUBLIC | {"__version__"}
    for name in PUBLIC:
        assert getattr(tidelog, name) is not None


@pytest.mark.parametrize("name", LAZY)
def test_packages_have_what_they_say(name: str) -> None:
    package = importlib.import_module(f"tidelog.{name}")
    assert set(package.__all__) <= set(dir(package))
    for public in package.__all__:
        assert getattr(package, public) is not None
    with pytest.raises(AttributeError, match=f"tidelog.{name}.*no_such_name"):
        _ = package.no_such_name


def test_the_import_is_light() -> None:
    heavy = ("numpy", "pyarrow", "rich", "click")
    code = (
        "import sys, tidelog; dir(tidelog); tidelog.errors; tidelog.Codec; "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_the_errors_of_the_library_are_at_hand() -> None:
    assert issubclass(tidelog.errors.CorruptRecordError, tidelog.errors.TidelogError)


def test_a_lazy_module_is_the_module() -> None:
    lazy = LazyModule("fractions")
    sys.modules.pop("fractions", None)
    assert "fractions" not in sys.modules
    assert lazy.Fraction(1, 2) == 0.5
    assert "fractions" in sys.modules
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lazy.no_such_name
