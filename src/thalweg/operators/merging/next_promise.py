"""The output's next promise: that of the input that has promised most and may lead, less the lag.

With `missing="keep"` it is what all inputs have promised. The end of the stream has no lag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from thalweg.model.time import INFINITY, MIN_TIME
from thalweg.operators.merging.level import MergeInput
from thalweg.plan.merging import MergePolicy

__all__ = ["next_group_promise", "next_promise"]


def next_promise(
    inputs: Collection[MergeInput], leader: MergeInput | None, policy: MergePolicy
) -> tuple[MergeInput | None, int]:
    """The input that leads and the CTI that the output may promise. Of inputs with equal promises
    the leader stays.

    >>> inputs = [MergeInput("left", 0, cti=5), MergeInput("right", 1, cti=9)]
    >>> [(member.name, time) for member, time in [next_promise(inputs, None, MergePolicy(lag=2))]]
    [('right', 7)]
    """
    joined = [member for member in inputs if member.joined]
    if not joined:
        return None, MIN_TIME
    furthest = max(joined, key=lambda member: member.cti)
    if policy.keeps_all:
        time = min(member.promise for member in inputs)
    else:
        time = furthest.cti
        if leader is not None and leader.cti == time:
            furthest = leader
    if time <= MIN_TIME or time == INFINITY:
        return furthest, time
    return furthest, max(time - policy.lag, MIN_TIME)


def next_group_promise(
    inputs: Mapping[str, MergeInput],
    promised: Mapping[str, int],
    leader: str | None,
    policy: MergePolicy,
) -> tuple[str | None, int]:
    """As `next_promise`, for one group: `promised` is each input's promise for the group, and
    `leader` the input that made the last promise."""
    joined = {name: time for name, time in promised.items() if inputs[name].joined}
    if not joined:
        return None, MIN_TIME
    best = max(joined.values())
    if leader is None or joined.get(leader) != best:
        leader = max(joined, key=lambda name: joined[name])
    if policy.keeps_all:
        best = min(max(time, inputs[name].since) for name, time in promised.items())
    return leader, best if best == INFINITY else best - policy.lag
