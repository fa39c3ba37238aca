"""A folder of images: a subfolder per class, nested as one likes; or such a one each for train and test."""

import os
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from PIL import Image

from labelsift.data.listing import Listing, Wrong, shown, written
from labelsift.data.photos import REFUSED
from labelsift.errors import InputError

PARTS = {
    "train": ("train", "training"),
    "test": ("test", "testing"),
    "validation": ("validation", "valid", "val"),
}
ALSO = (".heic", ".heif")  # that Pillow alone does not read: people take them for images, so they get listed


@dataclass
class Found:
    """What is below a folder, by paths relative to it."""

    images: list[str] = field(default_factory=list)
    left_out: list[Wrong] = field(default_factory=list)
    other: list[str] = field(default_factory=list)  # no images by their names, and hidden ones


def list_folder(folder: Path) -> dict[str, Listing]:
    """The images of a folder with the names of its subfolders as labels."""
    found = find_images(folder)
    tree: dict[str, dict[str, list[str]]] = {"": {}}
    for path in found.images:
        first, *rest = path.split("/")
        tree[""].setdefault(first if rest else "", []).append(path)
        if len(rest) > 1:
            tree.setdefault(first, {}).setdefault(rest[0], []).append(path)
    loose = [(written(path), "it is in no folder of a class") for path in tree[""].pop("", [])]
    if not tree[""]:
        raise _no_images(folder, found, bool(loose))
    parts = _parts(folder, tree)
    if parts:
        inside = {path for part in parts.values() for paths in tree[part].values() for path in paths}
        odd = [written(path) for path in found.images if path not in inside]
        loose = [(path, f"it is in no folder of a class in {' or '.join(parts.values())}") for path in odd]
    listings = {
        part: _listing(folder, place, tree[place]) for part, place in (parts or {"train": ""}).items()
    }
    listings["train"] = replace(listings["train"], left_out=(*found.left_out, *loose))
    return listings


def _parts(folder: Path, tree: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """Which folders are parts rather than classes: train and another one that shares classes with it."""
    named = {name: place for name, names in PARTS.items() for place in tree[""] if place.lower() in names}
    inner = {name: tree.get(place, {}) for name, place in named.items()}
    train = inner.get("train", {})
    parts = {name: place for name, place in named.items() if inner[name].keys() & train.keys()}
    if "test" not in parts and "validation" in parts:
        parts["test"] = parts.pop("validation")  # nothing else is held out
    if "test" in parts:
        return parts
    if "train" in named and tree[""].keys() <= {*named.values()}:  # no classes that are called so by chance
        raise _no_parts(folder, named, inner)
    return {}


def _no_parts(folder: Path, named: dict[str, str], inner: dict[str, dict[str, list[str]]]) -> InputError:
    train = shown(written(str(folder / named["train"])))
    if not inner["train"]:
        return InputError(f"{train} holds no folders of classes: give each class a folder of its own in it.")
    others = [name for name in named if name != "train"]
    if not others:
        return InputError(f"All images of {folder} are in {train}: give {train} as the data.")
    other = shown(written(str(folder / named[others[0]])))
    remedy = f"give {train} as the data, and use predict for the images of {other}"
    if inner[others[0]]:
        remedy = f"name its folders as those of {train}, or give {train} as the data"
    return InputError(f"{other} holds no class of {train}: {remedy}.")


def _listing(folder: Path, place: str, classes: dict[str, list[str]]) -> Listing:
    pairs = sorted((path, written(name)) for name, paths in classes.items() for path in paths)
    return Listing(
        name=str(folder / place),
        paths=[written(path) for path, _ in pairs],
        labels=[name for _, name in pairs],
        sources=[os.path.join(folder, path) for path, _ in pairs],
        home=os.path.realpath(folder),
    )


def _no_images(folder: Path, found: Found, loose: bool) -> InputError:
    if loose:
        return InputError(f"{folder} holds images but no folders: give each class a folder of its own.")
    why = ""
    if found.left_out:
        path, what = found.left_out[0]
        why = f" ({shown(path)} is left out: {what})"
    elif found.other:
        why = f" (only other files, such as {shown(written(found.other[0]))})"
    return InputError(f"There are no images in {folder}{why}: give it a subfolder of images per class.")


def find_images(folder: Path) -> Found:
    """All images below a folder, known by their names, in the order of their paths.

    Links that lead out of it are not followed, since a data set must not hold what its folder does not, and
    links to folders never are: they may lead in circles.
    """
    found, home = Found(), os.path.realpath(folder)
    waiting = [""]
    while waiting:
        place = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(folder, place)), key=lambda entry: entry.name)
        except OSError as error:
            found.left_out.append((written(place) or str(folder), error.strerror or "it cannot be opened"))
            continue
        for entry in entries:
            path = f"{place}/{entry.name}" if place else entry.name
            image = os.path.splitext(entry.name)[1].lower() in endings()
            link = entry.is_symlink()
            inner = os.path.isdir(entry.path) if link else entry.is_dir()  # a link to itself leads nowhere
            if entry.name.startswith("."):
                found.other.append(path)
            elif link and (image or inner) and not inside(entry.path, home):
                found.left_out.append((written(path), "a link that leads out of the folder"))
            elif link and inner:
                found.left_out.append((written(path), "a link to a folder"))
            elif inner:
                waiting.append(path)
            elif image and (link or entry.is_file()):
                found.images.append(path)
            else:
                found.other.append(path)
    found.images.sort()
    return found


def inside(path: str, home: str) -> bool:
    """Whether a path, with all its links followed, is below this folder (of which the same is known)."""
    real = os.path.realpath(path)
    return real == home or real.startswith(os.path.join(home, ""))


@cache
def endings() -> frozenset[str]:
    """How the names of images end."""
    kinds = Image.registered_extensions()  # loads all plugins
    return frozenset(
        [*ALSO, *(end for end, kind in kinds.items() if kind in Image.OPEN and kind not in REFUSED)]
    )
