"""`tidelog completion`: shells complete with what it prints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, run


@pytest.mark.parametrize(
    ("typed", "expected"), [("tri", ["trim"]), ("append --key", ["--key-separator"]), ("nothing", [])]
)
def test_bash_completes(typed: str, expected: list[str], tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(run("completion", "bash").out)
    words = ["tidelog", *typed.split(" ")]
    asked = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f'PATH={COMMAND.parent}:$PATH; _tidelog_completion tidelog; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == expected, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_the_script(shell: str, tmp_path: Path) -> None:
    answer = run("completion", shell)
    assert answer.code == 0
    assert "_TIDELOG_COMPLETE" in answer.out
    if shutil.which(shell):
        (tmp_path / "script").write_text(answer.out)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=60)


def test_an_unknown_shell_is_refused() -> None:
    answer = run("completion", "tcsh")
    assert answer.code == 2
    assert "choose from bash, zsh, fish" in answer.err
