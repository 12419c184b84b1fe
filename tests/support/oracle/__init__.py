"""The rules in plain Python, over workspaces in memory: what the engine is held against."""

from tests.support.oracle.asking import coordinates, requests
from tests.support.oracle.canaries import canaries, canaries_in
from tests.support.oracle.expected import expected
from tests.support.oracle.load import Loader
from tests.support.oracle.model import Workspace
from tests.support.oracle.request import Request, Sessions
from tests.support.oracle.shape import NOT_FOUND, told
from tests.support.oracle.worlds import workspaces

__all__ = [
    "NOT_FOUND",
    "Loader",
    "Request",
    "Sessions",
    "Workspace",
    "canaries",
    "canaries_in",
    "coordinates",
    "expected",
    "requests",
    "told",
    "workspaces",
]
