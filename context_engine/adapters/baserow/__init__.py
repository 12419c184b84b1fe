"""Exported Baserow workspaces: the file's text in, a workspace to be loaded out. No I/O."""

from context_engine.adapters.baserow.workspace import MAX_ROWS, read_workspace

__all__ = ["MAX_ROWS", "read_workspace"]
