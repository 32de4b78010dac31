"""Equal values have equal hashes, whatever stands beside them: a bucket depends on nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.model.hashing import hash_rows

TEXTS = ["", "a", "a longer text than eight bytes", None]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()])
def test_a_text_has_one_hash(kind: pa.DataType) -> None:
    whole = hash_rows([pa.array(TEXTS, pa.string()).cast(kind)], len(TEXTS))
    alone = [hash_rows([pa.array([text], pa.string()).cast(kind)], 1)[0] for text in TEXTS]
    assert whole.tolist() == alone
