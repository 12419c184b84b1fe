"""The rules in plain Python, over workspaces in memory: what the engine is held against."""

from tests.support.oracle.expected import NOT_FOUND, Request, expected, told
from tests.support.oracle.load import Loader
from tests.support.oracle.model import Workspace, canaries, canaries_in
from tests.support.oracle.worlds import requests, workspaces

__all__ = [
    "NOT_FOUND",
    "Loader",
    "Request",
    "Workspace",
    "canaries",
    "canaries_in",
    "expected",
    "requests",
    "told",
    "workspaces",
]
