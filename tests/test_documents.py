"""The maps in docs/documents.md and docs/architecture.md name modules and tests that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "documents.md").read_text()


def test_modules_exist() -> None:
    named = re.findall(r"`((?:storage|index|segment|log|records|kernels)/[a-z_]+\.py)`", TEXT)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / "src" / "tidelog" / name).exists()] == []


def test_tests_exist() -> None:
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) > 30
    for name in named:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not function or f"def {function}(" in (ROOT / path).read_text(), name


def test_the_files_to_touch_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text[text.index("## Where to add what") : text.index("## How data flows")]
    named = re.findall(r"`([a-z_]+(?:/[a-z_.]*)*(?:\.py|/))`", table)
    assert len(named) > 30
    places = (ROOT / "src" / "tidelog", ROOT)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_picture_of_layers_is_the_contract() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    picture = text.partition("```text\n")[2].partition("```")[0].splitlines()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [layer.replace("tidelog.", "") for layer in settings["contracts"][0]["layers"]]
    assert [re.split(r"\s{2,}", line)[0] for line in picture] == layers


def test_the_functions_of_the_walks_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text[text.index("| walk |") : text.index("## Decisions")]
    named = {part for name in re.findall(r"`([^`]+)`", table) for part in name.split(".")}
    source = "".join(path.read_text() for path in (ROOT / "src" / "tidelog").rglob("*.py"))
    defined = set(re.findall(r"^ *(?:def|class) (\w+)", source, re.MULTILINE))
    assert len(named) > 20
    assert named <= defined
