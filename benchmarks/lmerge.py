"""LMerge: throughput, bytes held and adjusts of every level and baseline.

Output and input elements a second of processor time, bytes held, adjusts: 2 to 10 inputs, payloads
of 16 and 1,000 bytes, batches of 1, 100 and 10,000, in order, in-process. A merge that cannot take
the stream (R0 to R2 need order) is given one it can.
"""

from __future__ import annotations

from benchmarks.repro.merge_streams import MERGES, SCHEMA, forms, make_merge, play
from thalweg.cli.bench import Emit

CASES = [(1, 400), (100, 20_000), (10_000, 100_000)]
"""Rows in a batch, and rows of the stream."""


def run(emit: Emit, *, scale: float = 1.0) -> None:
    """Measure every merge in turn on the same stream."""
    for bytes_ in (16, 1_000):
        for batch, full in CASES:
            count = max(int(full * scale * (1.0 if bytes_ == 16 else 0.2)), 2 * batch)
            for inputs in (2, 4, 10):
                streams = forms(count, inputs, bytes_=bytes_, stable=1 / batch, live=10_000)
                for name in MERGES:
                    result = play(make_merge(name, SCHEMA, inputs), streams)
                    params = {
                        "merge": name,
                        "inputs": inputs,
                        "payload": bytes_,
                        "batch": batch,
                        "rows": count,
                    }
                    emit("input", result.input_rate, "elements/s", **params)
                    emit("output", result.output_rate, "elements/s", **params)
                    emit("held", result.most_bytes, "B", **params)
                    emit("adjusts", result.adjusts, "elements", **params)
