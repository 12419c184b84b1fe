"""Logs: a constant action plus fields, never a message body. Readable, or JSON lines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

import structlog
from structlog.typing import EventDict, Processor


def _printable(_logger: object, _name: str, fields: EventDict) -> EventDict:
    """Texts of others on one line, with what steers a terminal escaped, as JSON lines have it."""
    for name, value in fields.items():
        if isinstance(value, str) and not value.isprintable():
            fields[name] = repr(value)[1:-1]
    return fields


class _ToStructlog(logging.Handler):
    """What is told by the standard library, in this process's form: its text up to the colon is
    the action, its named values are the fields. A text without such is the action as it stands."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = dict(record.args) if isinstance(record.args, Mapping) else {}
        action = str(record.msg).partition(":")[0] if fields else record.getMessage()
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        structlog.get_logger(record.name).log(record.levelno, action, **fields)


class _OfOthers(_ToStructlog):
    """The same of libraries, with the name of who says it."""

    def emit(self, record: logging.LogRecord) -> None:
        with structlog.contextvars.bound_contextvars(logger=record.name):
            super().emit(record)


def configure(json_lines: bool, *, level: int = logging.INFO) -> None:
    """Sets up this process's logging on stderr."""
    _standard_library(json_lines)
    renderer: tuple[Processor, ...] = (
        (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
        if json_lines
        # structlog's own choice shows every frame's variables: message bodies and passwords.
        else (
            _printable,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _standard_library(json_lines: bool) -> None:
    """Where lines of the core, of the events and of libraries go; of libraries only warnings."""
    if json_lines:
        logging.basicConfig(handlers=[_OfOthers()], level=logging.WARNING)
    else:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s %(message)s")
    core = logging.getLogger("context_engine")
    core.handlers, core.propagate = [_ToStructlog()], False
