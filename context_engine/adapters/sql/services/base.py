"""What all services are: a noun's writes over one `Writer`."""

from __future__ import annotations

from context_engine.adapters.sql.services.writing import Writer


class Service:
    """Every method is one transaction, and names its actor first.

    All raise `NotFound` for what is missing or out of the actor's sight, `NotPermitted`,
    `InvalidRequest` naming the field and the remedy, `Conflict` where `expected_version` is not
    the version found, `Unavailable`, and `NotYetEnforced` for a change of access that is
    committed while its mark does not stand.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
