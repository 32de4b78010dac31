"""What other commands ask of the supervisor of `thalweg ha`. A request is a file of JSON whose one
field is the kind of the request."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

__all__ = ["Join", "Request", "Start", "Stop", "Switch", "request_of_json", "request_to_json"]


@dataclass(frozen=True)
class Start:
    """Start replicas of a query."""

    kind: ClassVar[str] = "start"
    file: str
    """Its Python file."""
    replicas: int
    candidate: bool = False
    """Whether their answers are compared with those that are given, and not merged."""
    feedback: bool = True
    """Whether they leave out what the merge in front has settled."""


@dataclass(frozen=True)
class Join:
    """Merge replicas that were candidates."""

    kind: ClassVar[str] = "join"
    names: list[str]


@dataclass(frozen=True)
class Switch:
    """Answer from the candidates, and stop all others."""

    kind: ClassVar[str] = "switch"


@dataclass(frozen=True)
class Stop:
    """Stop replicas."""

    kind: ClassVar[str] = "stop"
    names: list[str]


Request: TypeAlias = Start | Join | Switch | Stop
_KINDS: dict[str, type[Any]] = {kind.kind: kind for kind in (Start, Join, Switch, Stop)}


def request_to_json(request: Request) -> str:
    return json.dumps({request.kind: asdict(request)})


def request_of_json(text: str | bytes) -> Request:
    """The inverse of `request_to_json`.

    >>> request_of_json(request_to_json(Stop(["one-1"])))
    Stop(names=['one-1'])
    """
    ((kind, fields),) = json.loads(text).items()
    request: Request = _KINDS[kind](**fields)
    return request
