"""CSV."""

from collections.abc import Callable, Mapping, Sequence

from . import DataType, RecordBatch, RecordBatchReader, Schema, Table

class InvalidRow:
    expected_columns: int
    actual_columns: int
    number: int | None
    text: str

class ReadOptions:
    def __init__(
        self,
        *,
        use_threads: bool = True,
        block_size: int | None = None,
        skip_rows: int = 0,
        skip_rows_after_names: int = 0,
        column_names: Sequence[str] | None = None,
        autogenerate_column_names: bool = False,
        encoding: str = "utf8",
    ) -> None: ...

class ParseOptions:
    def __init__(
        self,
        *,
        delimiter: str = ",",
        quote_char: str | bool = '"',
        double_quote: bool = True,
        escape_char: str | bool = False,
        newlines_in_values: bool = False,
        ignore_empty_lines: bool = True,
        invalid_row_handler: Callable[[InvalidRow], str] | None = None,
    ) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        check_utf8: bool = True,
        column_types: Schema | Mapping[str, DataType] | None = None,
        null_values: Sequence[str] | None = None,
        true_values: Sequence[str] | None = None,
        false_values: Sequence[str] | None = None,
        decimal_point: str = ".",
        strings_can_be_null: bool = False,
        quoted_strings_can_be_null: bool = True,
        include_columns: Sequence[str] | None = None,
        include_missing_columns: bool = False,
        auto_dict_encode: bool = False,
        timestamp_parsers: Sequence[object] | None = None,
    ) -> None: ...

class WriteOptions:
    def __init__(
        self,
        *,
        include_header: bool = True,
        batch_size: int = 1024,
        delimiter: str = ",",
        quoting_style: str = "needed",
    ) -> None: ...

class CSVStreamingReader(RecordBatchReader): ...

def read_csv(
    input_file: object,
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> Table: ...
def open_csv(
    input_file: object,
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> CSVStreamingReader: ...
def write_csv(
    data: Table | RecordBatch, output_file: object, write_options: WriteOptions | None = None
) -> None: ...
