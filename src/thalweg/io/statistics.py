"""What the statistics of a file tell about its times, without reading its rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.io.events import events
from thalweg.io.listing import FilePlace

__all__ = ["newest_time"]


def newest_time(place: FilePlace, name: str, column: str) -> tuple[int, int] | None:
    """The newest time in a column of a Parquet file, in ticks, and how many rows the file has. None
    where the file does not tell, or has rows without a time."""
    try:
        with place.files.open_input_file(place.path_of(name)) as source:
            file = pq.ParquetFile(source)
            at = file.schema_arrow.get_field_index(column)
            if at < 0:
                return None
            kind, footer = file.schema_arrow.field(at).type, file.metadata
    except (pa.ArrowException, OSError, ValueError):
        return None  # whoever reads the file says what is wrong with it
    latest = []
    for group in range(footer.num_row_groups):
        chunks = map(footer.row_group(group).column, range(footer.num_columns))
        statistics = next((c.statistics for c in chunks if c.path_in_schema == column), None)
        if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
            return None
        latest.append(statistics.max)
    if not latest:
        return None
    times = pa.table({column: pa.array(latest, kind)})
    return int(events(times, column).column("_start").to_numpy().max()), footer.num_rows
