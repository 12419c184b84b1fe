"""docs/errors.md, from the tree of errors and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.errors import ContextEngineError, Rejected
from events.answers import RequestFailed
from workers.build import Fault
from workers.cli.guard import CANNOT_WRITE
from workers.cli.shared import Exit
from workers.reference import markdown
from workers.reference.markdown import code, paragraph, table
from workers.runner import ExitCode

HEAD = """
An error has a `code` for programs, a `message` for people and says whether it is `retryable`. In
Python it is an exception; over Kafka it is a `context.build.failed` with the same three, and
`ContextClient` raises the exception again.

`not_found` answers for what is missing and for what is forbidden; nobody can tell them apart.
"""

EXIT_HEAD = """
## Exit codes

Numbers above 2 are those of `sysexits.h`. A worker's supervisor restarts it on anything but 0.
"""

EXIT_TAIL = """
What went wrong is one line on stderr. With `--json` it is an object on stdout as well:

```json
{"code": "not_found", "field": null, "message": "table 'tbl-x' was not found", "retryable": false}
```

`field` is the place of the fault in what was given, if it has one. Wrong arguments have the code
`usage`, a setting has `settings`.
"""

MEANINGS = {
    Exit.OK: "done; a worker was told to stop and left in order",
    Exit.FAILED: "something else failed, or a check found something",
    Exit.USAGE: "the command line is wrong",
    Exit.REJECTED: "refused: change the request",
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


def _tree(error: type[ContextEngineError]) -> Iterator[type[ContextEngineError]]:
    """The classes that somebody outside can meet."""
    outside = error.__module__.startswith(("context_engine.errors", "context_engine.settings"))
    outside = outside or error.__module__ == "events.answers" or error is Fault
    if outside and error not in (ContextEngineError, Rejected, RequestFailed):
        yield error
    for one in error.__subclasses__():
        yield from _tree(one)
