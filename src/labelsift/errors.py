"""What the user gave cannot be used: one sentence, with the value and the remedy."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """A request that cannot be carried out; the command line prints the sentence and exits with 2."""


def unknown(what: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name nobody knows, with the nearest one that somebody does."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(names)}."
    return InputError(f"There is no {what} '{name}': {hint}")
