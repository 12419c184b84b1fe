"""Logs: a constant action plus fields, never a message body. Readable, or JSON lines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

import structlog
from structlog.typing import EventDict


def _printable(_logger: object, _name: str, fields: EventDict) -> EventDict:
    """Texts of others on one line, with what steers a terminal escaped, as JSON lines have it."""
    for name, value in fields.items():
        if isinstance(value, str) and not value.isprintable():
            fields[name] = repr(value)[1:-1]
    return fields


class _ToStructlog(logging.Handler):
    """What the core tells by the standard library, in this process's form: its text up to the
    colon is the action, its named values are the fields."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = record.args if isinstance(record.args, Mapping) else {}
        action = str(record.msg).partition(":")[0] if fields else record.getMessage()
        structlog.get_logger(record.name).log(record.levelno, action, **fields)


def configure(json_lines: bool, *, level: int = logging.INFO) -> None:
    """Sets up this process's logging on stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s %(message)s")
    core = logging.getLogger("context_engine")
    core.handlers, core.propagate = [_ToStructlog()], False
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if json_lines
        # structlog's own choice shows every frame's variables: message bodies and passwords.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ]
        if json_lines
        else [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
