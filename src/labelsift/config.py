"""Configuration is a dataclass: its fields are the `--set` names, the TOML keys and what a run saves."""

import contextlib
import dataclasses
import hashlib
import json
import math
import operator
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from labelsift.errors import InputError, unknown

T = TypeVar("T")


def converted(cls: type, values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Values as TOML has them, or strings as the command line has them, as the fields of `cls` want them."""
    kinds = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in names:
            raise unknown(f"setting of {owner} named", name, names)
    return {name: convert(kinds[name], value, name) for name, value in values.items()}


def from_values(cls: type[T], values: Mapping[str, Any], owner: str) -> T:
    """Make a `cls` of such values."""
    return cls(**converted(cls, values, owner))


def convert(kind: Any, value: Any, name: str) -> Any:
    """`value` as the type `kind` of the setting `name`, or a sentence that says what it should be."""
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        if isinstance(value, str):
            items: list[Any] = [word.strip() for word in value.split(",")] if value.strip() else []
        else:
            items = list(value) if isinstance(value, list | tuple) else [value]
        return tuple(convert(item, one, name) for one in items)
    if typing.get_origin(kind) is types.UnionType:  # such as a number or a word
        for choice in typing.get_args(kind):
            with contextlib.suppress(InputError):
                return convert(choice, value, name)
    if typing.get_origin(kind) is dict and isinstance(value, dict):
        return value
    try:
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if kind is str and isinstance(value, str):
            return value
        if kind is int and isinstance(value, str):
            return int(value)
        if kind is int and not isinstance(value, bool):
            return operator.index(value)
        if kind is float and not isinstance(value, bool) and math.isfinite(number := float(value)):
            return number
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    words = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a word"}
    kinds = typing.get_args(kind) if typing.get_origin(kind) is types.UnionType else (kind,)
    wanted = " or ".join(words.get(one, "a table") for one in kinds)
    raise InputError(f"The setting {name} cannot be '{value}': it takes {wanted}.")


def as_toml(values: Mapping[str, Any]) -> str:
    """TOML text of numbers, strings, lists of them and tables of all these."""
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items()]
    for key, table in tables.items():
        lines += ["", f"[{key}]", as_toml(table).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    # JSON's strings, numbers and booleans are TOML's too, but for the DEL character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def in_words(value: Any) -> str:
    """A value of a setting as `--set` takes it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def read_toml(file: Path) -> dict[str, Any]:
    """The keys of a TOML file, or a sentence that says why not."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"The config {file} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:  # TOML's own errors are values too
        raise InputError(f"The config {file} is not TOML: {error}.") from None


# What says where things are, but not what they are.
ELSEWHERE = (
    *("data", "test", "weights", "device"),
    *("image_size", "path_column", "label_column", "image_dir"),
)


@dataclasses.dataclass(frozen=True)
class Config:
    """All that decides a run. Two runs with the same `id` are the same run."""

    data: str
    fingerprint: str  # of the data, with the given labels
    net: str
    method: str
    nets: int = 1  # trained one after the other, their probabilities averaged
    weights: str = ""  # that the net starts from: a file, or timm:NAME
    weights_fingerprint: str = ""
    noise: str = ""
    seed: int = 1
    validation: float = 0.0  # share of the training data held out, with its noisy labels
    limit: int = 0  # training examples used, of all; 0: all
    augment: str = "none"
    device: str = "auto"
    precision: str = "auto"
    test: str = ""  # a held-out part with trusted labels
    image_size: int = 0  # of images from files
    path_column: str = ""
    label_column: str = ""
    image_dir: str = ""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # the method's hyper-parameters

    @property
    def id(self) -> str:
        """A hash of what decides the result: not where data and weights lie and how they were read, for
        which their fingerprints stand, nor which device was asked for.
        """
        values = {k: v for k, v in dataclasses.asdict(self).items() if k not in ELSEWHERE}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def slug(self) -> str:
        """A name for the run's folder that says what it is."""
        words = [Path(self.data).stem, self.noise, self.method, self.net, f"seed{self.seed}", self.id]
        return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(word for word in words if word))

    def difference(self, other: "Config") -> str:
        """The first thing in which `other`, from before, is another run, in words.

        Other data comes before settings, which may follow from it, and after all that may have changed it.
        """
        same = self.fingerprint == other.fingerprint
        mine, theirs = (dataclasses.asdict(one) | (one.settings if same else {}) for one in (self, other))
        apart = ("settings", "fingerprint", *(ELSEWHERE if same else ("data", "device")))
        for key in (k for k in mine | theirs if k not in apart):
            if _toml_value(mine.get(key)) != _toml_value(theirs.get(key)):  # which has lists for tuples
                if key == "weights_fingerprint" and self.weights == other.weights:
                    return f"the weights in {self.weights} have changed since then"
                return f"{key} = {in_words(theirs.get(key))}, not {in_words(mine.get(key))}"
        if Path(self.data).resolve() != Path(other.data).resolve():
            return f"data = {other.data}, not {self.data}"
        return f"the examples or labels of {self.data} have changed since then"

    def toml(self) -> str:
        """The text of `config.toml`."""
        return as_toml(dataclasses.asdict(self))

    @classmethod
    def read(cls, file: Path) -> "Config":
        """The config a run saved."""
        try:
            values = read_toml(file)
            missing = {"data", "fingerprint", "net", "method", "settings"} - values.keys()
            if missing:
                raise InputError(f"The config {file} is incomplete: it lacks {min(missing)}.")
            return from_values(cls, values, "a run")
        except InputError as error:
            why = str(error).replace(f"The config {file}", "it").rstrip(".")
            raise InputError(
                f"{file} cannot be used ({why}): remove the folder, or choose another --out for fit."
            ) from None
