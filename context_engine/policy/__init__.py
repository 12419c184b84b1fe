"""The row policy language: what it can say, and what that means for one user at one time.

    pred    := all[..] | any[..] | not p | true | false | cmp(ref, op, operand) | linked_any(f, p)
    ref     := field:<id> | sys:created_by | sys:updated_by | sys:created_at
    operand := literal | user.id | user.email_norm | user.team_ids | user.attr(..) | now(..)

As JSON: `{"all": [..]}`, `{"any": [..]}`, `{"not": p}`, `true`, `false`,
`{"cmp": {"ref": .., "op": .., "operand": ..}}`, `{"linkedAny": {"field": .., "pred": ..}}`;
an operand is `{"literal": ..}`, `{"user": "id" | "email_norm" | "team_ids"}`,
`{"attr": {"table": .., "keyField": .., "valueField": ..}}` or
`{"now": {"unit": "today" | "week", "tz": ..}}`.

`linkedAny` holds where one live row that the link field leads to passes; it follows one link.
`attr` is the values of `valueField` in the rows whose `keyField` names the user, by id or e-mail.
`now` is today, or the Monday of this week, in the zone that it names, else in the user's: what it
is compared with counts by its local date. So does a time that is compared with a literal day,
which is a day of the user's zone, else of UTC. What is compared with `user.email_norm` counts as
an address (`emails.normal`).

A policy is parsed, checked when it is written (`check`), and resolved for each user (`resolve`);
an adapter compiles what came of it. What cannot be parsed or resolved denies.
"""

from context_engine.policy.checking import check, check_predicate
from context_engine.policy.days import begins
from context_engine.policy.grammar import (
    MAX_COMPARISONS,
    MAX_DEPTH,
    Address,
    All,
    Any_,
    AttrLookup,
    Cmp,
    Comparison,
    Linked,
    LinkedAny,
    LinkedIn,
    Literal_,
    Node,
    Not,
    Now,
    OfAttr,
    OfNow,
    OfUser,
    OnDay,
    Op,
    Operand,
    PolicySubject,
    Pred,
    Ref,
    RowPolicy,
    TablePolicies,
    comparisons,
    dump,
    links,
    parse,
    parse_policies,
)
from context_engine.policy.kept import parse_policy, parse_stored
from context_engine.policy.kinds import ChoiceField
from context_engine.policy.naming import (
    fields_read,
    lacking,
    reads,
    refs_read,
)
from context_engine.policy.resolving import (
    FieldsOf,
    Unresolvable,
    UserOperands,
    attributes,
    resolve,
    until,
)
from context_engine.zones import zone_of

__all__ = [
    "MAX_COMPARISONS",
    "MAX_DEPTH",
    "Address",
    "All",
    "Any_",
    "AttrLookup",
    "ChoiceField",
    "Cmp",
    "Comparison",
    "FieldsOf",
    "Linked",
    "LinkedAny",
    "LinkedIn",
    "Literal_",
    "Node",
    "Not",
    "Now",
    "OfAttr",
    "OfNow",
    "OfUser",
    "OnDay",
    "Op",
    "Operand",
    "PolicySubject",
    "Pred",
    "Ref",
    "RowPolicy",
    "TablePolicies",
    "Unresolvable",
    "UserOperands",
    "attributes",
    "begins",
    "check",
    "check_predicate",
    "comparisons",
    "dump",
    "fields_read",
    "lacking",
    "links",
    "parse",
    "parse_policies",
    "parse_policy",
    "parse_stored",
    "reads",
    "refs_read",
    "resolve",
    "until",
    "zone_of",
]
