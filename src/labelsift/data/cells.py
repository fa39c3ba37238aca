"""Tables as they lie on the disk: the names of their columns and their cells, row by row."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labelsift.errors import InputError
from labelsift.results.store import plain

TEXT, PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")
ENDINGS = (*TEXT, *PARQUET)
NEEDED = "Parquet files need pyarrow: pip install 'labelsift[parquet]'."

Rows = Iterator[tuple[int, Sequence[Any]]]  # the line or row that an example is in, and its cells


@contextmanager
def opened(file: Path) -> Iterator[tuple[list[str], Rows]]:
    """The names of the columns, and the rows as long as the file is open."""
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    if file.suffix.lower() in PARQUET:
        names, rows = _parquet(file)
        yield [str(name).strip() for name in names], rows
        return
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            first = lines.readline()
            lines.seek(0)
            tab = file.suffix.lower() in (".tsv", ".tab")
            reader = csv.reader(lines, delimiter="\t" if tab else max(",;\t", key=first.count), strict=True)
            header = next(reader, [])
            if not header:
                raise InputError(f"{file} is empty: its first line should name the columns.")
            yield [plain(name).strip() for name in header], _lines(file, reader, len(header))
    except OSError as error:
        raise InputError(f"The table {file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise InputError(f"The table {file} is no UTF-8 text: save it as such, or as Parquet.") from None
    except csv.Error as error:
        raise InputError(f"The table {file} is damaged ({error}): write it again.") from None


def _lines(file: Path, reader: Any, width: int) -> Rows:
    for cells in reader:
        if not any(cells):
            continue  # an empty line
        if len(cells) != width:
            raise InputError(
                f"Line {reader.line_num} of {file} has {len(cells)} cells but there are {width} columns: "
                "mend it, with quotes around text that holds the separator."
            )
        yield reader.line_num, [plain(cell) for cell in cells]


def _parquet(file: Path) -> tuple[Sequence[str], Rows]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise InputError(NEEDED) from None

    @contextmanager
    def readable() -> Iterator[None]:
        try:
            yield
        except (ArrowException, OSError) as error:
            why = " ".join(str(error).split())[:200]
            raise InputError(f"The table {file} is damaged or no Parquet file ({why}).") from None

    def rows() -> Rows:
        number = 0
        batches = table.iter_batches()
        while True:
            with readable():
                batch = next(batches, None)
                columns = [] if batch is None else [column.to_pylist() for column in batch.columns]
            if batch is None:
                return
            for cells in zip(*columns, strict=True):
                number += 1
                yield number, cells

    with readable():
        table = ParquetFile(file)
        return table.schema_arrow.names, rows()


def row_of(file: Path, number: int) -> str:
    """A row as a sentence names it."""
    return f"{'Row' if file.suffix.lower() in PARQUET else 'Line'} {number} of {file}"
