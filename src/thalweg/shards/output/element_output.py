"""The answers of a micro-batch as one batch of an element log: the same whenever it is made again.

Tasks of a micro-batch run side by side and end in any order. The log must not depend on that order,
since a reader may have read it before the micro-batch had to run again. So the
changes are reduced to their net effect and put in canonical order (start, end, digest of the
payload), and the promise after them is what all buckets promise.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.model.batch import Batch
from thalweg.model.delta import Delta
from thalweg.model.digests import digest_rows
from thalweg.model.progress import NO_PROGRESS, Progress
from thalweg.model.progress_text import progress_of_text, progress_text
from thalweg.shards.exchange.blobs import batch_of_blob
from thalweg.shards.output.rows import OutputKind

__all__ = ["OutputPart", "canonical_changes", "elements_of_output", "progress_blob"]


class OutputPart(NamedTuple):
    """The columns of a query's output on Spark that an element log uses."""

    kind: str
    cti: int | None
    blob: bytes | None


def progress_blob(progress: Progress) -> bytes | None:
    """Promises beyond the common one, as a bucket sends them beside its figures."""
    if not progress.speaks_of_groups and not progress.column_promises:
        return None
    return progress_text(progress).encode()


def elements_of_output(parts: Iterable[OutputPart], schema: pa.Schema, buckets: int) -> Batch:
    """All changes of a micro-batch and what all of its buckets promise after them. Where not every
    bucket was at work, nothing is promised."""
    changes: list[Batch] = []
    promises: list[Progress] = []
    for part in parts:
        if part.kind == OutputKind.CHANGES and part.blob is not None:
            changes.append(batch_of_blob(part.blob))
        elif part.kind == OutputKind.FIGURES:
            promises.append(_promise(part))
    progress = NO_PROGRESS if len(promises) < buckets else reduce(Progress.meet, promises)
    return canonical_changes(changes, schema).with_progress(progress)


def _promise(part: OutputPart) -> Progress:
    if part.blob is not None:
        return progress_of_text(part.blob.decode())
    return NO_PROGRESS if part.cti is None else Progress(part.cti)


def canonical_changes(batches: Iterable[Batch], schema: pa.Schema) -> Batch:
    """The net effect of batches, whatever their order.

    >>> from thalweg.model.element_batches import batch_of, elements_of
    >>> from thalweg.model import adjust, insert
    >>> schema = pa.schema([("v", pa.int64())])
    >>> sent = [[insert({"v": 1}, 4, 9), adjust({"v": 1}, 4, 9, 7)], [insert({"v": 2}, 0, 5)]]
    >>> batches = [batch_of(elements, schema) for elements in sent]
    >>> print(*elements_of([canonical_changes(batches[::-1], schema)]), sep=chr(10))
    Insert(payload={'v': 2}, start=0, end=5)
    Insert(payload={'v': 1}, start=4, end=7)
    """
    net = Delta.concat([Delta.of_batch(batch) for batch in batches], schema).consolidate()
    digests = digest_rows(net.payload.columns, len(net))
    order = np.lexsort((digests.low, digests.high, net.end, net.start))
    return net.take(order).to_batch()
