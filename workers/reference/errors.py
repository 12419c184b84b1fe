"""docs/errors.md, from the tree of errors and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.errors import ContextEngineError, Rejected
from events.answers import RequestFailed
from events.tail import Missed
from workers.build_handler import Fault
from workers.cli.guard import CANNOT_WRITE
from workers.cli.shared import Exit
from workers.process import ExitCode
from workers.reference import markdown
from workers.reference.markdown import code, paragraph, table

HEAD = """
An error has a `code` for programs, a `message` for people and says whether it is `retryable`. In
Python it is an exception; over Kafka it is a `context.build.failed` with the same three, and
`ContextClient` raises the exception again.

`not_found` answers for what is missing and for what is forbidden; nobody can tell them apart.
`expired` and `rate_limited` say nothing about the request: asked again later, it may be answered.
"""

EXIT_HEAD = """
## Exit codes

Numbers above 2 are those of `sysexits.h`. A worker's supervisor restarts it on anything but 0; that
of `--supervised` ends with 0, 2 and 78 too, which a restart does not change, and passes on what the
worker left with when it is told to stop: 128 and the signal's number where that ended it.
"""

EXIT_TAIL = """
What went wrong is one line on stderr. With `--json` it is an object on stdout as well:

```json
{"code": "not_found", "field": null, "message": "table 'tbl-x' was not found", "retryable": false}
```

`field` is the place of the fault in what was given, if it has one: the option or argument that
gave it (`--user`, `--set fld-task-due`), or a place in a file (`policies.0.pred`). A wrong command
line has the code `usage`, a setting has `settings`. `explain` answers in the steps that it prints:
what is not there is in `missing`, and a line on stderr.
"""

MEANINGS = {
    Exit.OK: "done; `explain` too, whatever its verdict; a worker was told to stop and left in"
    " order",
    Exit.FAILED: "something else failed, or a check found something; `dead-letters`: one could not"
    " be handled",
    Exit.USAGE: "the command line is wrong: something of it is missing, unknown, at odds with"
    " another part, or none of the values that the help lists. Nothing was asked or written",
    Exit.REJECTED: "refused: change the request, or the state that it met; also what is missing or"
    " out of sight, and a file that is not what it should be. `explain`: what was named is not"
    " there at all",
    Exit.UNAVAILABLE: "a part is away, or a topic is missing; try again. A worker that is told to"
    " stop while its broker does not answer leaves with it too",
    CANNOT_WRITE: "the output cannot be written: no room, or no reader",
    Exit.SETTINGS: "a setting is missing or wrong",
    ExitCode.FAILED: "a worker met an unexpected error",
    ExitCode.STALLED: "a worker had work and nothing moved",
    130: "Ctrl-C; the demo ends with it on SIGTERM too",
}


def page() -> str:
    rows = [
        (
            code(error.code),
            code(error.__name__),
            "yes" if error.retryable else "no",
            paragraph(error.__doc__),
        )
        for error in sorted(set(_tree(ContextEngineError)), key=lambda one: one.code)
    ]
    codes = [(code(str(int(number))), meaning) for number, meaning in sorted(MEANINGS.items())]
    return markdown.page(
        "Errors and exit codes",
        HEAD,
        table(("code", "class", "retryable", "when"), rows),
        EXIT_HEAD,
        table(("exit code", "meaning"), codes),
        EXIT_TAIL,
    )


def codes() -> frozenset[str]:
    """Every code that an error has."""
    return frozenset(error.code for error in _tree(ContextEngineError))


def _tree(error: type[ContextEngineError]) -> Iterator[type[ContextEngineError]]:
    """The classes that somebody outside can meet."""
    outside = error.__module__.startswith(("context_engine.errors", "context_engine.settings"))
    outside = outside or error.__module__ == "events.answers" or error in (Fault, Missed)
    if outside and error not in (ContextEngineError, Rejected, RequestFailed):
        yield error
    for one in error.__subclasses__():
        yield from _tree(one)
