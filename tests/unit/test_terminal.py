"""What reaches a terminal: users' words never steer it, and an output that ends is no traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from workers.cli.terminal import json_text, people

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mRED\u202egpj\x9b31m\x7f\u2028\ud800"


def steers(text: str) -> set[str]:
    """Characters other than line breaks that do something else than show."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl")}


def printed(*things: object) -> str:
    console = people(width=80)
    console.file = io.StringIO()
    console.print(*things, markup=False, highlight=False)
    return console.file.getvalue()


def test_no_control_of_a_users_text_is_printed() -> None:
    """Alone, and within everything that a command prints it in."""
    grid = Table()
    grid.add_column(EVIL)
    grid.add_row(Text(EVIL, style="bold"))
    for shown in (printed(EVIL), printed(Panel(Text(EVIL), title=EVIL)), printed(grid)):
        assert steers(shown) == set()
        assert "RED" in shown


@pytest.mark.parametrize("indent", [None, 2])
def test_json_escapes_what_does_not_print(indent: int | None) -> None:
    """And is the same JSON."""
    value = {EVIL: [EVIL, "日本 👩‍🚀 naïve"]}
    text = json_text(value, indent=indent)
    assert steers(text) == set()
    assert json.loads(text) == value
    assert "日本" in text


COMMAND = (sys.executable, "-m", "workers", "domain", "--help")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_without_room_is_told_in_one_line() -> None:
    program = "import sys\nfrom workers.cli.guard import guarded\nguarded(lambda: print('{}'))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False
        )
        help_ = subprocess.run(COMMAND, stdout=full, stderr=subprocess.PIPE, check=False)
    for one in (done, help_):
        assert one.returncode == 74
        assert one.stderr.decode() == "the output cannot be written: No space left on device\n"


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(COMMAND, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.returncode in (1, 74)
    assert done.stderr == b""


def test_an_interruption_of_the_imports_is_no_traceback() -> None:
    """They take a second, in which people change their minds."""
    program = (
        "import os, signal, sys\n"
        "from workers import cli\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'workers.cli.main': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.argv[1:] = ['watch']\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == b""
