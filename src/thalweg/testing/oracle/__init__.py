"""The oracle: a second, naive reading of every node's definition, over plain Python rows.

`oracle(query, tables)` computes the table of a query from the whole tables of its sources, from
scratch, with loops. It shares no code with the kernels, so that where the two agree, both are
likely right.

One module per family: `span` (row by row), `joins`, `chains` (stitch, sessions, distinct),
`windows` (aggregates and top-k per window), `wid` (kinds of the WID framework), `modules` (users'
modules), `groups`. Each holds one function per node, as close to the node's formula as Python
allows.
"""

from thalweg.testing.oracle import chains, groups, joins, modules, span, wid, windows
from thalweg.testing.oracle.scene import Scene, oracle

__all__ = ["Scene", "chains", "groups", "joins", "modules", "oracle", "span", "wid", "windows"]
