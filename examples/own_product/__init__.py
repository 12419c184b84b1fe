"""A helpdesk with a SQLite database of its own, which gives the engine its ports.

`database` is the product's, `helpdesk` its writes. What connects it: `domain` (facts and
counts), `evidence` (snapshots), and the changes that `helpdesk` emits.
"""

from examples.own_product.database import Database
from examples.own_product.domain import HelpdeskDomain
from examples.own_product.evidence import SqliteSnapshots
from examples.own_product.helpdesk import Emit, Helpdesk, marking

__all__ = ["Database", "Emit", "Helpdesk", "HelpdeskDomain", "SqliteSnapshots", "marking"]
