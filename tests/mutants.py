"""Mutation testing: what `make mutants` runs, and its figures by file.

    python tests/mutants.py                        every part that [tool.mutants] names
    python tests/mutants.py context_engine/keys    one folder or file of them
    python tests/mutants.py --again context_engine/keys     what survived of it the last time

mutmut changes one thing at a time in a copy below `mutants/`, and runs those tests of the part
that reach it. It leaves out whatever is decorated; here that is half of the code (dataclasses,
properties, caches), so it is told otherwise for decorators that are known to do no harm.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import libcst as cst
import mutmut
import mutmut.__main__ as runner
from mutmut.configuration import Config
from mutmut.mutation import file_mutation
from mutmut.mutation.data import SourceFileMutationData

HARMLESS = {"dataclass", "property", "cached_property", "lru_cache", "contextmanager"}
"""Decorators whose classes and functions are mutated; the others are left out, as by mutmut."""
NICENESS = 10
FOLDER = Path("mutants")
KILLED = ("killed", "timeout", "segfault")
"""A mutant that runs forever, or takes the interpreter down, has been found out too."""

Parts = Mapping[str, Mapping[str, list[str]]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Mutation testing.")
    parser.add_argument("only", nargs="?", default="", help="a folder or file; all without")
    parser.add_argument("--again", action="store_true", help="only what survived the last time")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    only = given.only.strip("/")
    parts: Parts = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutants"]
    if given.part:
        try_part(parts[given.part], only, again=given.again)
        return 0
    chosen = [name for name, part in parts.items() if within(only, part)]
    if not chosen:
        raise SystemExit(f"{only!r} holds nothing that [tool.mutants] names in pyproject.toml")
    os.nice(NICENESS)
    if not given.again:
        shutil.rmtree(FOLDER, ignore_errors=True)
    for name in chosen:
        # In a process of its own: mutmut keeps its state for good.
        code = subprocess.run([sys.executable, __file__, "--part", name, *arguments]).returncode
        if code:
            return code
    figures(only)
    return 0


def try_part(part: Mapping[str, list[str]], only: str, *, again: bool) -> None:
    """Every mutant of a part, or those that survived; then the survivors' changes."""
    config, files = Config.get(), within(only, part)
    config.only_mutate = files
    config.pytest_add_cli_args_test_selection = sorted(found(part["tests"]))
    (FOLDER / "mutmut-stats.json").unlink(missing_ok=True)
    for file in files:
        (FOLDER / file).unlink(missing_ok=True)  # another part left it as it is
    names = [name for path, name, status in results() if status not in KILLED and path in files]
    if again and not names:
        return
    widen()
    runner._run(names if again else [], os.cpu_count() or 1)
    for path, name, status in results():
        if status not in KILLED and path in files:
            print(f"\n{name}: {status}\n{change(name, path)}")


def within(only: str, part: Mapping[str, list[str]]) -> list[str]:
    """The files of a part that lie in `only`."""
    files = found(part["code"]) - found(part.get("without", ()))
    return sorted(file for file in files if is_within(only, file))


def found(patterns: Iterable[str]) -> set[str]:
    return {str(path) for pattern in patterns for path in Path().glob(pattern)}


def is_within(only: str, file: str) -> bool:
    return not only or file == only or file.startswith(f"{only}/")


# -- mutmut ------------------------------------------------------------------------------------


def widen() -> None:
    """Mutates decorated code too; asks for every test by its name before any mutant does, since
    a name that pytest cannot find would pass for a kill; and leaves the clock to pytest and the
    limit of CPU time, since a timer by process id could meet another process that has it by then.
    """
    skips = file_mutation.MutationVisitor._skip_node_and_children
    arranged = file_mutation.function_trampoline_arrangement
    run = runner.PytestRunner.run_tests

    def skip(self: file_mutation.MutationVisitor, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Decorator):
            return True
        if isinstance(node, cst.ClassDef | cst.FunctionDef) and harmless(node):
            return skips(self, node.with_changes(decorators=()))
        return skips(self, node)

    def arrange(function: cst.FunctionDef, mutants: Any, class_name: str | None) -> Any:
        if not harmless(function):
            return arranged(function, mutants, class_name)
        bare = function.with_changes(decorators=())
        before, (chooser, *copies), after, names = arranged(bare, mutants, class_name)
        assert isinstance(chooser, cst.FunctionDef)
        chooser = chooser.with_changes(decorators=(*function.decorators, *chooser.decorators))
        return before, (chooser, *copies), after, names

    def by_name(self: runner.PytestRunner, *, mutant_name: str | None, tests: Any) -> int:
        if mutant_name is None and not tests:
            tests = sorted(set().union(*mutmut.tests_by_mangled_function_name.values()))
        return run(self, mutant_name=mutant_name, tests=tests)

    vars(file_mutation)["function_trampoline_arrangement"] = arrange
    file_mutation.MutationVisitor._skip_node_and_children = skip  # type: ignore[method-assign]
    runner.PytestRunner.run_tests = by_name  # type: ignore[method-assign]
    vars(runner)["register_timeout"] = lambda pid, timeout_s: None


def harmless(node: cst.ClassDef | cst.FunctionDef) -> bool:
    """Whether it is decorated, and by nothing but what is known."""
    names = {decorator_name(one.decorator) for one in node.decorators}
    return bool(names) and names <= HARMLESS


def decorator_name(node: cst.BaseExpression) -> str:
    called = node.func if isinstance(node, cst.Call) else node
    return called.value if isinstance(called, cst.Name) else ""


# -- figures -----------------------------------------------------------------------------------


def results() -> Iterator[tuple[str, str, str]]:
    """(file, mutant, what became of it)."""
    for meta in sorted(FOLDER.rglob("*.py.meta")):
        path = str(meta.relative_to(FOLDER)).removesuffix(".meta")
        data = SourceFileMutationData(path=path)
        data.load()
        for name, code in data.exit_code_by_key.items():
            yield path, name, runner.status_by_exit_code[code]


def change(name: str, path: str) -> str:
    """The lines that differ."""
    diff = runner.get_diff_for_mutant(name, path=path).splitlines()
    return "\n".join(one for one in diff if one[:1] in "+-" and not one.startswith(("+++", "---")))


def figures(only: str) -> None:
    """Killed and survived by file."""
    every = [one for one in results() if is_within(only, one[0])]
    print(f"\n{'':48}{'killed':>8}{'survived':>10}{'share':>9}")
    counted = Counter((path, status in KILLED) for path, _, status in every)
    for path in sorted({path for path, _, _ in every}):
        print(line(path, counted[path, True], counted[path, False]))
    killed = sum(status in KILLED for _, _, status in every)
    print(line("together", killed, len(every) - killed))


def line(name: str, killed: int, survived: int) -> str:
    return f"{name:<48}{killed:>8}{survived:>10}{killed / (killed + survived):>9.1%}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
