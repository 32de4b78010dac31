"""Fragments as a Mermaid diagram: the operators where rows are read, those in the buckets, and the
keys of the exchanges between them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from thalweg.model.clocks import shown_by
from thalweg.plan.clock import clock_of
from thalweg.plan.drawing import boxes
from thalweg.plan.explain import operator_ids
from thalweg.plan.nodes import Node, Source, walk
from thalweg.shards.fragments.fragment import Exchange, Fragment, FragmentPlan

__all__ = ["fragment_chart"]


def fragment_chart(plan: FragmentPlan) -> str:
    """A box for each fragment with its operators, one for each reader, and the exchanges as arrows.

    >>> from thalweg.stream import source
    >>> from thalweg.plan.aggregates import count
    >>> from thalweg.shards.fragments.cutting import fragments_of
    >>> calls = source("calls", {"who": "string"}, insert_only=True)
    >>> query = calls.group_by("who").tumbling(10).aggregate(n=count())
    >>> print(fragment_chart(fragments_of(query.node)))
    flowchart TD
      subgraph read_calls["where rows are read"]
        calls.source-1[("source-1<br>calls")]
        calls.panes-1["panes-1<br>tumbling(10) by who"]
        calls.source-1 --> calls.panes-1
      end
      subgraph fragment0["fragment 0, in every bucket"]
        0.combine_panes-1["combine_panes-1<br>tumbling(10) by who: n = count()"]
      end
      calls.panes-1 -- "by who" --> 0.combine_panes-1
    """
    lines: list[str] = ["flowchart TD"]
    arrows: list[str] = []
    read: set[str] = set()
    with shown_by(clock_of(plan.root)):
        for fragment in plan.fragments:
            for entry in fragment.inputs:
                if entry.source is not None and entry.source.name not in read:
                    read.add(entry.source.name)
                    lines += _framed(
                        f"read_{entry.source.name}", "where rows are read", _reader(entry)
                    )
            where = "one bucket" if fragment.single else "every bucket"
            title = f"fragment {fragment.number}, in {where}"
            lines += _framed(f"fragment{fragment.number}", title, _inside(fragment))
            arrows += _exchanges(plan, fragment)
    return "\n".join([*lines, *arrows])


def _framed(name: str, title: str, inside: Iterator[str]) -> Iterator[str]:
    yield f'  subgraph {name}["{title}"]'
    yield from (f"  {line}" for line in inside)
    yield "  end"


def _names(root: Node, prefix: str) -> dict[Node, str]:
    return {node: f"{prefix}.{identity}" for node, identity in operator_ids(root).items()}


def _reader(entry: Exchange) -> Iterator[str]:
    assert entry.source is not None
    top = entry.ingest or entry.source
    return boxes(top, _names(top, entry.source.name))


def _inside(fragment: Fragment) -> Iterator[str]:
    """The operators of a fragment, without the sources that stand for its inputs."""
    names = _names(fragment.plan, str(fragment.number))
    leaves = [names[node] for node in walk(fragment.plan) if isinstance(node, Source)]
    for line in boxes(fragment.plan, names):
        first = line.split()[0].split("[")[0]
        if first not in leaves:
            yield line


def _exchanges(plan: FragmentPlan, fragment: Fragment) -> Iterator[str]:
    names = _names(fragment.plan, str(fragment.number))
    for entry in fragment.inputs:
        if entry.source is not None:
            top = entry.ingest or entry.source
            origin = _names(top, entry.source.name)[top]
        else:
            above = plan.fragments[entry.upstream or 0].plan
            origin = _names(above, str(entry.upstream))[above]
        keys = escape(", ".join(map(str, entry.keys)) or "nothing", quote=True)
        for node in walk(fragment.plan):
            if entry.leaf in node.inputs:
                yield f'  {origin} -- "by {keys}" --> {names[node]}'
