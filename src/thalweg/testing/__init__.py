"""The public test kit: check a query, an operator or a whole engine against the laws of the
temporal model.

The heart is `assert_physically_independent`. It takes a query and one logical input, makes many
legal physical forms of that input (other orders, detours over other ends, rows that come and go,
other batches, other CTIs, restarts), plays each of them, and compares the final table with the
oracle's. In a test with pytest:

>>> import pyarrow as pa
>>> from thalweg.plan.aggregates import count
>>> from thalweg.plan.nodes import Source, WindowAggregate
>>> from thalweg.testing import assert_physically_independent
>>> from thalweg.windows import HoppingWindow

>>> def test_visits_per_ten_minutes():
...     visits = Source("visits", pa.schema([("page", pa.string())]))
...     query = WindowAggregate(visits, HoppingWindow(10, 10), (("n", count()),), keys=("page",))
...     table = [(1, 2, {"page": "a"}), (9, 12, {"page": "a"}), (9, 12, {"page": "b"})]
...     assert_physically_independent(query, {"visits": table}, forms=10)

>>> test_visits_per_ten_minutes()

When it fails, the message holds the smallest failing form as Python; `assert_form_right(query,
form)` plays it again.

The pieces: `oracle` (a naive second reading of every node), `Form`, `step`, `RESTART`,
`logical_inputs` and `forms_of` (physical forms), `difference` and `assert_same_table` (tables as
bags), `ReferenceEngine` (the oracle as an engine), `FakeClock`; for merges `make_replica` (inputs)
and `compatibility_problem` (can the output still follow its inputs?). Strategies for hypothesis are
in `thalweg.testing.strategies`.
"""

from thalweg.testing.checks import output_problem, output_table
from thalweg.testing.clock import FakeClock
from thalweg.testing.compare import assert_same_table, difference
from thalweg.testing.compatibility import (
    Prefix,
    PrefixPlayer,
    compatibility_problem,
    incompatibility,
    open_close_problem,
    prefix_of,
)
from thalweg.testing.forms import (
    RESTART,
    Form,
    Inputs,
    Logical,
    Step,
    illegality,
    logical_inputs,
    step,
)
from thalweg.testing.fuzzer import CONSISTENCIES, assert_form_right, assert_physically_independent
from thalweg.testing.modules import Finding, assert_module_lawful, check_module
from thalweg.testing.oracle import oracle
from thalweg.testing.reference import ReferenceEngine
from thalweg.testing.replicas import REPLICA_SCHEMA, make_reference, make_replica
from thalweg.testing.runners import EngineLike, EngineType, Runner, engine_runner
from thalweg.testing.variation import Manner, forms_of, make_form

__all__ = [
    "CONSISTENCIES",
    "REPLICA_SCHEMA",
    "RESTART",
    "EngineLike",
    "EngineType",
    "FakeClock",
    "Finding",
    "Form",
    "Inputs",
    "Logical",
    "Manner",
    "Prefix",
    "PrefixPlayer",
    "ReferenceEngine",
    "Runner",
    "Step",
    "assert_form_right",
    "assert_module_lawful",
    "assert_physically_independent",
    "assert_same_table",
    "check_module",
    "compatibility_problem",
    "difference",
    "engine_runner",
    "forms_of",
    "illegality",
    "incompatibility",
    "logical_inputs",
    "make_form",
    "make_reference",
    "make_replica",
    "open_close_problem",
    "oracle",
    "output_problem",
    "output_table",
    "prefix_of",
    "step",
]
