"""Workspaces in memory: what they are made of, how they are drawn, and how they are stored."""

from tests.support.oracle.load import Loader
from tests.support.oracle.model import Workspace, canaries, canaries_in
from tests.support.oracle.worlds import workspaces

__all__ = ["Loader", "Workspace", "canaries", "canaries_in", "workspaces"]
