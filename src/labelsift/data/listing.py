"""Examples of one's own: where each is and what it is called, how they are read, and a data set of them."""

import errno
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.cache import Report, look_at
from labelsift.data.dataset import Dataset
from labelsift.data.download import PAUSE, Observe
from labelsift.data.labels import in_order, too_few_of
from labelsift.data.photos import Source
from labelsift.data.pixels import Pixels, decode_all
from labelsift.data.readers import Look, Readers
from labelsift.errors import InputError

SIZES = (28, 32, 64, 96, 128, 160, 224)  # that images get when none is asked for
LARGEST = 4096
TRUE_LABEL = "true_label"  # the column of tables that is taken as the truth
Wrong = tuple[str, str]  # a path, and what is wrong with it


@dataclass(frozen=True)
class Reading:
    """How a user's own data is read, where there is a choice; what is empty is guessed."""

    test: str = ""  # a held-out part with trusted labels: a folder, a table or the like
    image_size: int = 0
    path_column: str = ""
    label_column: str = ""
    image_dir: str = ""  # the folder that the paths of a table are below, if not that of the table

    def only(self, source: str, *allowed: str) -> None:
        """Refuse what makes no difference for this source."""
        for field in fields(self):
            if field.name not in allowed and getattr(self, field.name):
                flag = "--" + field.name.replace("_", "-")
                raise InputError(
                    f"{source} cannot be read with {flag} {getattr(self, field.name)}: leave it out."
                )


@dataclass(frozen=True)
class Listing:
    """The examples of a part: images, or feature rows."""

    name: str  # of the folder or file, for sentences about it
    paths: Sequence[str]  # what each example is called
    labels: Sequence[str]  # names of classes
    true_labels: Sequence[str] = ()
    classes: Sequence[str] = ()  # in their order; in that of their names where there is none
    sources: Sequence[Source] = ()  # of the images
    home: str = ""  # the folder of the images, where they are files
    rows: NDArray[np.float32] | None = None
    columns: tuple[str, ...] = ()  # of the rows, by their names
    index: Sequence[int] = ()  # the places of the examples in it, where some are left out
    left_out: tuple[Wrong, ...] = ()
    notes: tuple[str, ...] = ()  # for whoever reads the data, in sentences

    def keep(self, places: Sequence[int], left_out: Iterable[Wrong]) -> "Listing":
        """These examples only, and why not the others."""
        return replace(
            self,
            paths=[self.paths[place] for place in places],
            labels=[self.labels[place] for place in places],
            true_labels=[self.true_labels[place] for place in places] if self.true_labels else (),
            sources=Some(self.sources, places),
            index=[(self.index or range(len(self.paths)))[place] for place in places],
            left_out=(*self.left_out, *left_out),
        )


class Some(Sequence[Source]):
    """Sources at some places, none of which is fetched before it is asked for."""

    def __init__(self, whole: Sequence[Source], places: Sequence[int]) -> None:
        self._whole, self._places = whole, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> Any:
        return self._whole[self._places[place]]


def shown(name: str) -> str:
    """A name from outside as a sentence can hold it: of printable characters, and not endless."""
    short = name if len(name) <= 200 else f"{name[:100]}...{name[-90:]}"
    return "".join(char if char.isprintable() else "?" for char in short)


def written(path: str) -> str:
    """The name of a file as text, also where it is none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def load_listed(parts: Mapping[str, Listing], image_size: int, observe: Observe, largest: int = 0) -> Dataset:
    """A data set of the parts train, test and validation; all but the first may be absent.

    Where no `image_size` is asked for, images are at most `largest` pixels wide; 0: of any size.
    """
    train = parts["train"]
    if not 0 <= image_size <= LARGEST:
        raise InputError(f"Images cannot be {image_size} pixels wide: use --image-size 32, or leave it out.")
    for name, part in parts.items():
        if (part.rows is None) != (train.rows is None):
            raise InputError(
                f"{part.name} is no {name} part for {train.name}: give images for both, or rows."
            )
    if train.rows is None:
        return _load_images(parts, image_size, observe, largest)
    if image_size:
        raise InputError(f"{train.name} holds feature rows and no images: leave out --image-size.")
    rows = {
        name: in_columns(part.rows, part.columns, part.name, train.columns, train.name)
        for name, part in parts.items()
    }
    return _dataset(parts, rows, {*train.labels}, train.notes)


def in_columns(
    rows: Any, columns: Sequence[str], name: str, wanted: Sequence[str], train: str
) -> NDArray[np.float32]:
    """The rows of the file `name` with their columns in the order that those of `train` had."""
    if odd := sorted({*columns} ^ {*wanted}):
        raise InputError(
            f"The feature column '{shown(odd[0])}' is in one of {train} and {name} only: "
            "give both the same columns."
        )
    ordered: NDArray[np.float32] = rows[:, [columns.index(column) for column in wanted]]
    return ordered


def _load_images(parts: Mapping[str, Listing], image_size: int, observe: Observe, largest: int) -> Dataset:
    with Readers() as readers:
        known: dict[str, tuple[Listing, list[Look]]] = {}
        for name, part in parts.items():
            seen = look_at(part.sources, part.home, readers, reporter(observe, part.name, "looked at"))
            readable = [place for place, look in enumerate(seen) if isinstance(look, Look)]
            wrong = [(p, look) for p, look in zip(part.paths, seen, strict=True) if isinstance(look, str)]
            _some(part, readable, wrong)
            known[name] = part.keep(readable, wrong), [look for look in seen if isinstance(look, Look)]
        every = [look for _, looks in known.values() for look in looks]
        channels = 1 if all(look.grey for look in every) else 3
        size = image_size or default_size(known["train"][1], channels, largest)
        notes = _contradictions(*known["train"])
        pixels: dict[str, Pixels] = {}
        listings: dict[str, Listing] = {}
        for name, (part, looks) in known.items():
            report = reporter(observe, part.name, "decoded")
            found = decode_all(part.sources, looks, (channels, size, size), readers, report)
            wrong = [(part.paths[place], what) for place, what in found.wrong.items()]
            readable = [place for place in range(len(part.paths)) if place not in found.wrong]
            _some(part, readable, wrong)
            pixels[name], listings[name] = found, part.keep(readable, wrong)
    images = {name: found.images for name, found in pixels.items()}
    data = _dataset(listings, images, {*parts["train"].labels}, notes)
    return replace(data, mean=pixels["train"].mean, std=pixels["train"].std)


def _some(part: Listing, readable: Sequence[int], wrong: Sequence[Wrong]) -> None:
    if not readable:
        path, what = (*part.left_out, *wrong)[0]
        where = "give the folder that all images are below as --image-dir"
        remedy = where if what == os.strerror(errno.ENOENT) else "give some that can"
        raise InputError(
            f"None of the images of {part.name} can be read, such as {shown(path)} ({what}): {remedy}."
        )


def default_size(looks: Sequence[Look], channels: int, largest: int = 0) -> int:
    """That of the usual sizes which is nearest to the images', as far as all would fit in half the memory.

    It is at most `largest`, unless that is 0.
    """
    middle = float(np.median([min(look.width, look.height) for look in looks]))
    nearest = min(SIZES, key=lambda size: abs(np.log(size / middle)))
    fits = [size for size in SIZES if len(looks) * channels * size**2 <= _memory() / 2]
    size = min(nearest, max(fits, default=SIZES[0]))
    return min(size, largest) if largest else size


def _memory() -> float:
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2.0**33


def _contradictions(part: Listing, looks: Sequence[Look]) -> tuple[str, ...]:
    """Point out images that are there more than once, with different labels."""
    first: dict[str, int] = {}
    pairs = []
    for place, look in enumerate(looks):
        other = first.setdefault(look.digest, place)
        if part.labels[other] != part.labels[place]:
            pairs.append((other, place))
    if not pairs:
        return ()
    one, two = (f"{shown(part.paths[at])} ({shown(part.labels[at])})" for at in pairs[0])
    times = "image is" if len(pairs) == 1 else "images are"
    return (f"{len(pairs):,} {times} there again with a different label, first {one} as {two}.",)


def _dataset(
    parts: Mapping[str, Listing], inputs: Mapping[str, Any], named: set[str], notes: tuple[str, ...] = ()
) -> Dataset:
    """The data set of what was read; `named` are the classes of all that was listed."""
    train = parts["train"]
    classes = tuple(train.classes) or in_order(named)
    _check_classes(train, named)
    labels = {name: _numbers(part, part.labels, classes) for name, part in parts.items()}
    true_labels = _numbers(train, train.true_labels, classes) if train.true_labels else None
    left_out = tuple(wrong for part in parts.values() for wrong in part.left_out)
    if left_out:
        path, what = left_out[0]
        count = "1 file is" if len(left_out) == 1 else f"{len(left_out):,} files are"
        notes = (*notes, f"{count} left out, {'' if len(left_out) == 1 else 'first '}{shown(path)} ({what}).")
    return Dataset(
        train.name,
        inputs["train"],
        labels["train"],
        classes,
        true_labels,
        inputs.get("test"),
        labels.get("test"),
        inputs.get("validation"),
        labels.get("validation"),
        paths=tuple(train.paths) if train.rows is None else (),
        index=tuple(train.index),
        columns=train.columns,
        left_out=left_out,
        notes=notes,
    )


def _check_classes(part: Listing, named: set[str]) -> None:
    counts = Counter(part.labels)
    for name in in_order(named):
        if counts[name] < 2:
            only = f"one example only, {_called(part, part.labels.index(name))}" if counts[name] else ""
            has = only or "no image that can be read"
            raise too_few_of(shown(name), part.name, has)
    if len(named) < 2:
        raise InputError(
            f"All examples of {part.name} are of the class '{shown(part.labels[0])}': "
            "there is nothing to tell apart."
        )


def _called(part: Listing, place: int) -> str:
    return shown(part.paths[place]) or f"example {place}"


def _numbers(part: Listing, names: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    place = {name: number for number, name in enumerate(classes)}
    for at, name in enumerate(names):
        if name not in place:
            raise InputError(
                f"The label '{shown(name)}' of {_called(part, at)} in {part.name} is none of the "
                f"{len(classes)} classes that are trained on: mend it, or leave it out."
            )
    return np.array([place[name] for name in names], dtype=np.int64)


def reporter(observe: Observe, name: str, what: str) -> Report:
    """Say how far it is, several times a second and at the end."""
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            observe({"images": {"name": name, "what": what, "done": done, "total": total}})

    return report
