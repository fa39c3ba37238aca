"""The data that a run was trained on, as far as it is still there."""

from pathlib import Path

from labelsift.config import Config
from labelsift.data import DATASETS, Dataset, Reading
from labelsift.data.hugging_face import HUB
from labelsift.errors import InputError
from labelsift.preparation import ARRAYS, prepare


def data_of(config: Config, wish: str, data_dir: str = "") -> Dataset:
    """The data of a run, read again in the same way, since somebody has the wish to see it, say."""
    check_here(config.data, config.test, config.image_dir)
    reading = Reading(
        config.test, config.image_size, config.path_column, config.label_column, config.image_dir
    )
    data, _ = prepare(
        config.data,
        noise=config.noise,
        seed=config.seed,
        data_dir=data_dir,
        limit=config.limit,
        reading=reading,
    )
    if data.fingerprint != config.fingerprint:
        raise InputError(f"The data {config.data} has changed since the run: fit again to {wish}.")
    return data


def check_here(*sources: str) -> None:
    """Refuse paths to the data of a run that only lead there from the folder in which it was begun."""
    for source in sources:
        if source == ARRAYS and not Path(source).exists():
            raise InputError("The run was trained on arrays, which are not kept.")
        if source in ("", *DATASETS) or source.startswith(HUB) or Path(source).exists():
            continue
        if Path(source).is_absolute():
            raise InputError(f"There is no {source} any more: put it back, or fit the data where it is now.")
        raise InputError(f"There is no '{source}' in {Path.cwd()}: start this in the folder where it is.")
