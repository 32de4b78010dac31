"""When a micro-batch runs: the words of `start` as arguments of Spark's trigger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from thalweg.errors import PlanError, WindowError, did_you_mean
from thalweg.model.time import duration_us

__all__ = ["trigger_arguments"]

_TRIGGERS = ("at once", "available now", "once", "10 seconds")
_ARGUMENTS = ("processingTime", "availableNow", "once")


def trigger_arguments(trigger: str | Mapping[str, Any]) -> dict[str, Any]:
    """What Spark's `trigger` is called with. Spark's own words are understood too.

    >>> trigger_arguments("availableNow"), trigger_arguments("10 seconds")
    ({'availableNow': True}, {'processingTime': '10 seconds'})
    """
    if not isinstance(trigger, str):
        unknown = [name for name in trigger if name not in _ARGUMENTS]
        if unknown or len(trigger) != 1:
            raise PlanError(
                f"trigger={dict(trigger)!r}: give one of {', '.join(_ARGUMENTS)}; other triggers of"
                " Spark's know no state."
            )
        name, value = next(iter(trigger.items()))
        return trigger_arguments(value) if name == "processingTime" else {"availableNow": True}
    word = re.sub(r"[\s_-]", "", trigger).lower()
    if word in ("availablenow", "once"):
        return {"availableNow": True}
    if word == "atonce":
        return {"processingTime": "0 seconds"}
    try:
        interval = duration_us(trigger, what="trigger")
    except WindowError:
        raise PlanError(
            f"trigger={trigger!r} is not understood{did_you_mean(trigger, _TRIGGERS)} Say 'at "
            "once', 'available now', or how often a micro-batch runs, such as '10 seconds'."
        ) from None
    if interval < 0:
        raise PlanError(f"trigger={trigger!r}: a micro-batch cannot run before the one before.")
    whole = interval % 1_000_000 == 0 and re.fullmatch(r"\d+ (milli|micro)?seconds?", trigger)
    return {"processingTime": trigger if whole else f"{interval} microseconds"}
