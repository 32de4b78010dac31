"""User-defined modules: functions of events, aggregates and operators of windows, in plain Python.

>>> import thalweg as tw
>>> from thalweg import udm
>>> @udm.aggregate("spread", inputs={"value": "double"}, output="double")
... def spread(values):
...     return max(values) - min(values)
>>> prices = tw.source("prices", {"price": "double"})
>>> rows = [tw.point({"price": price}, at) for at, price in enumerate([3.0, 5.0, 4.0, 9.0])]
>>> tw.table(prices.tumbling(3).apply("spread", "price"), {"prices": rows})
[(0, 3, {'spread': 2.0}), (3, 6, {'spread': 0.0})]
"""

from thalweg.expr.user_calls import LOOKUPS
from thalweg.udm.decorators import aggregate, function, operator
from thalweg.udm.events import Event, Window
from thalweg.udm.module import Module
from thalweg.udm.properties import Properties
from thalweg.udm.registry import DEFAULT, Registry

__all__ = [
    "DEFAULT",
    "Event",
    "Module",
    "Properties",
    "Registry",
    "Window",
    "aggregate",
    "function",
    "operator",
]

if DEFAULT.find_function not in LOOKUPS:
    LOOKUPS.append(DEFAULT.find_function)
