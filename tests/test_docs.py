"""The README, the docs and the examples do what they say.

In each document, from top to bottom and in one directory of its own:

- `python` blocks run, sharing their names;
- `console` blocks run their lines that begin with `$ `; what follows is what they print, `...` is anything.

Other blocks are only shown.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spark.conftest import require_spark

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document."""

    language: str
    text: str
    where: str


def blocks(document: Path) -> list[Block]:
    """The blocks that run, in order."""
    text = document.read_text()
    return [
        Block(found[1], found[2], f"{document.name}:{text.count(chr(10), 0, found.start()) + 1}")
        for found in _BLOCK.finditer(text)
    ]


def run_python(block: Block, names: dict[str, object]) -> None:
    """Run a block; a comment `# -> text` behind a print says what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * int(block.where.rpartition(":")[2]) + block.text, block.where, "exec"), names)
    expected = re.findall(r"# -> (.*)$", block.text, re.MULTILINE)
    if expected:
        assert out.getvalue().splitlines() == expected, block.where


def run_console(block: Block, directory: Path) -> None:
    """Run the commands of a block and compare what they print."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=directory,
            env=os.environ | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        pattern = re.escape(expected).replace(re.escape("..."), r"[^\n]*(?:\n[^\n]*)*?")
        assert re.fullmatch(pattern, done.stdout), f"{block.where}: {command}\nprinted:\n{done.stdout}"


# by tests/spark/test_docs.py, where there is Spark
RUN_ELSEWHERE = ("spark.md", "tables.md", "spark-write.md", "topic-to-parquet.md", "spark-cluster.md")


def run_document(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all blocks of a document."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": document.stem}
    for block in blocks(document):
        if block.language == "python":
            run_python(block, names)
        else:
            run_console(block, tmp_path)


@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if blocks(d) and d.name not in RUN_ELSEWHERE],
    ids=lambda path: path.name,
)
def test_examples_in_documents_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_document(document, tmp_path, monkeypatch)


def test_the_readme_has_a_python_example() -> None:
    assert [block for block in blocks(ROOT / "README.md") if block.language == "python"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def run_demo(**env: str) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py", "--events", "40000"],
        capture_output=True,
        text=True,
        env=os.environ | env,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "40,000 events in 4 segments" in done.stdout
    assert "one bit flipped: a batch's checksum does not match" in done.stdout
    return " ".join(done.stdout.split())


def test_the_demo_runs_without_java(tmp_path: Path) -> None:
    out = run_demo(JAVA_HOME=str(tmp_path))
    assert "rebuilt from the log, the very bytes it had" in out
    assert "Spark needs Java 17 or later: install a JDK" in out


@pytest.mark.slow
def test_the_demo_runs_with_spark() -> None:
    require_spark()
    out = run_demo()
    assert "partition 0: 2,500, partition 1: 2,500" in out
    assert re.search(r"1-ingest . done .* 40000 records into 4 partitions", out)
    assert re.search(r"5-export . done .* 40000 records", out)
    assert out.count("skipped") == 5
    assert "brest, by day" in out
