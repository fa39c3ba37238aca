"""Data sets of Hugging Face: by name from the hub, or as `save_to_disk` wrote them. Needs the extra `hf`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelsift.data.folder import PARTS, inside
from labelsift.data.listing import TRUE_LABEL, Listing, Reading, shown
from labelsift.data.photos import Source
from labelsift.data.table import LABELS
from labelsift.errors import InputError, unknown

HUB = "hf:"
SAVED = ("dataset_dict.json", "state.json")  # of several splits, of a single one


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return any((folder / name).is_file() for name in SAVED)


def list_hugging_face(source: str, reading: Reading) -> dict[str, Listing]:
    """The splits of a data set; hf:NAME:CONFIG names one of several configurations."""
    try:
        import datasets
    except ImportError:
        raise InputError(f"{source} needs the library datasets: pip install 'labelsift[hf]'.") from None
    name = source.removeprefix(HUB)
    home = os.path.realpath(name) if is_saved(Path(name)) else ""
    try:
        if home:
            found = datasets.load_from_disk(name)
        else:
            repository, _, config = name.partition(":")
            found = datasets.load_dataset(repository, config or None)
    except Exception as error:  # of the network, the hub, the files or a library below
        why = shown(" ".join(str(error).split()) or type(error).__name__)
        raise InputError(f"The Hugging Face data set {name} cannot be loaded ({why}).") from None
    splits = _splits(source, found)
    listings = {part: _listing(f"{source} {part}", split, reading, home) for part, split in splits.items()}
    return {part: listing for part, listing in listings.items() if part == "train" or any(listing.labels)}


def _splits(source: str, found: Any) -> dict[str, Any]:
    """The parts of a data set: its splits by their names, or the only one."""
    if not isinstance(found, Mapping):
        return {"train": found}
    named = {part: name for part, names in PARTS.items() for name in found if name.lower() in names}
    if "train" not in named:
        if len(found) != 1:
            raise InputError(
                f"{source} has no split named train, but {', '.join(found)}: save one of them alone."
            )
        named = {"train": next(iter(found))}
    if "test" not in named and "validation" in named:
        named["test"] = named.pop("validation")  # nothing else is held out
    return {part: found[name] for part, name in named.items()}


def _listing(name: str, split: Any, reading: Reading, home: str) -> Listing:
    kinds = {column: type(kind).__name__ for column, kind in split.features.items()}
    images = [column for column, kind in kinds.items() if kind == "Image"]
    image = _column(name, reading.path_column, images, list(kinds), "an image", "--path-column")
    known = [column for column, kind in kinds.items() if kind == "ClassLabel" and column != TRUE_LABEL]
    known = known or [column for column in kinds if column.lower().replace("_", "") in LABELS]
    label = _column(name, reading.label_column, known, list(kinds), "a label", "--label-column")
    if image not in images:
        raise InputError(f"The column '{image}' of {name} holds no images: name another with --path-column.")
    pictures = split.select_columns([image]).cast_column(image, type(split.features[image])(decode=False))
    names = getattr(split.features[label], "names", None) or []
    return Listing(
        name=name,
        paths=[f"row {place}" for place in range(len(split))],
        labels=_labels(name, split, label, names, secret=not name.endswith(" train")),
        true_labels=_labels(name, split, TRUE_LABEL, names) if TRUE_LABEL in kinds else (),
        classes=names,
        sources=Pictures(pictures, image, name, home),
    )


def _column(name: str, asked: str, fitting: list[str], columns: list[str], what: str, flag: str) -> str:
    if asked:
        if asked not in columns:
            raise unknown(f"column of {name} named", asked, columns)
        return asked
    if len(fitting) != 1:
        which = " or ".join(fitting) if fitting else "none of " + ", ".join(columns)
        raise InputError(f"Which column of {name} is {what}, {shown(which)}? Say it with {flag}.")
    return fitting[0]


def _labels(name: str, split: Any, column: str, names: list[str], secret: bool = False) -> list[str]:
    """Labels as names, by their numbers where they have such; none at all where they may be kept secret."""
    values = split.select_columns([column])[:][column]
    names = getattr(split.features[column], "names", None) or names
    missing = [place for place, value in enumerate(values) if value in (None, -1) or not str(value).strip()]
    if missing and not (secret and len(missing) == len(values)):
        raise InputError(f"Row {missing[0]} of {name} has no label: fill it in, or remove the row.")
    if missing:
        return [""] * len(values)
    for place, value in enumerate(values):
        number = bool(names) and isinstance(value, int)
        if isinstance(value, list | dict) or (number and not 0 <= value < len(names)):
            raise InputError(
                f"Row {place} of {name} has the label {shown(str(value))}, which is no class: mend it, "
                "or name another column with --label-column."
            )
    return [names[value] if names and isinstance(value, int) else str(value).strip() for value in values]


class Pictures(Sequence[Source]):
    """The images of a split, fetched one at a time: a data set need not fit in memory."""

    def __init__(self, split: Any, column: str, name: str, home: str) -> None:
        self._split, self._column, self._name, self._home = split, column, name, home

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, place: Any) -> Any:
        if (image := self._split[place][self._column]) is None:
            return b""  # which cannot be read, and so is listed
        if (content := image.get("bytes")) is not None:
            return content
        path = str(image.get("path") or "")
        if self._home and not inside(path, self._home):
            raise InputError(
                f"Row {place} of {self._name} names {shown(path)}, which is not in it: save the images too."
            )
        return path
