"""`labelsift fit`: train on labels of which some are wrong."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from labelsift import api
from labelsift.cli.progress import Reporter, percent
from labelsift.cli.report import write_report
from labelsift.cli.trained import check_here
from labelsift.config import Config, converted, read_toml
from labelsift.data import DATASETS
from labelsift.errors import InputError
from labelsift.nets import PRETRAINED
from labelsift.result import Result
from labelsift.results.store import RunFolder


def fit(
    data: Annotated[
        str | None,
        Argument(
            help="A data set by name (fashion-demo), a folder with a subfolder of images per class, a table "
            "(.csv, .tsv, .parquet) with a path and a label column, an .npz file, or hf:NAME."
        ),
    ] = None,
    method: Annotated[str | None, Option(help="See `labelsift methods`; pes when not given.")] = None,
    net: Annotated[
        str | None,
        Option(help="lenet, resnet18, ..., timm:NAME or package.module:factory; else follows from the data."),
    ] = None,
    noise: Annotated[
        str | None,
        Option(
            help="Put noise on the labels: symmetric:0.5, pair:0.45, instance:0.4, matrix=FILE, labels=FILE."
        ),
    ] = None,
    seed: Annotated[int | None, Option(help="Decides everything that is drawn; 1 when not given.")] = None,
    nets: Annotated[int | None, Option(help="Train so many nets and average them; 1 when not given.")] = None,
    weights: Annotated[str | None, Option(help="Weights to start from: a file, or timm:NAME.")] = None,
    pretrained: Annotated[
        bool, Option("--pretrained", help="Start a net of timm from timm's pretrained weights.")
    ] = False,
    epochs: Annotated[
        int | None,
        Option(help="Epochs; pes and some others add stages to them. Short for --set epochs=N."),
    ] = None,
    cuts: Annotated[
        str | None,
        Option(
            help="The children the later parts begin with; short for --set cuts=A,B. See `labelsift parts`."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, Option("--set", metavar="NAME=VALUE", help="A hyper-parameter; may be repeated.")
    ] = None,
    test: Annotated[
        str | None, Option(help="A held-out part with trusted labels: a folder, a table or an .npz file.")
    ] = None,
    image_size: Annotated[
        int | None, Option(help="Resize images to so many pixels; else follows from theirs and the device.")
    ] = None,
    path_column: Annotated[str | None, Option(help="The column of a table that names the images.")] = None,
    label_column: Annotated[str | None, Option(help="The column of a table that holds the labels.")] = None,
    image_dir: Annotated[
        str | None, Option(help="The folder that the images of a table are in; its own when not given.")
    ] = None,
    validation: Annotated[
        float | None, Option(help="Share held out, with its noisy labels, to choose an epoch by.")
    ] = None,
    augment: Annotated[str | None, Option(help="Random views: none, flip, crop, crop+flip or auto.")] = None,
    limit: Annotated[int | None, Option(help="Use so many training examples only.")] = None,
    data_dir: Annotated[str, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = "",
    config: Annotated[Path | None, Option(help="A TOML file; flags on the command line win.")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or cuda:0.")] = None,
    compile: Annotated[
        bool | None, Option(help="Compile nets and capture steps; on a GPU when not given.")
    ] = None,
    precision: Annotated[str | None, Option(help="bf16, fp32 or auto: bf16 on a GPU.")] = None,
    out: Annotated[Path | None, Option(help="The run folder; a name under runs/ when not given.")] = None,
    checkpoint_seconds: Annotated[
        float,
        Option(
            help="The state is saved at once, then less and less often, so many seconds apart in the end; "
            "0: every epoch."
        ),
    ] = 10.0,
    resume: Annotated[bool, Option("--resume", help="Finish a run that was broken off.")] = False,
    quiet: Annotated[bool, Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Train a classifier that wrong labels do not fool, and judge every label."""
    values = converted(Config, read_toml(config), str(config)) if config is not None else {}
    begun = out is not None and RunFolder(out).config.exists()
    if resume and config is None and data is None and out is not None:
        if not begun:
            raise InputError(
                f"There is no run in {out} that could be finished: name the folder of one as --out."
            )
        values = asdict(Config.read(RunFolder(out).config))
    if data is None and "data" in values and values.get("fingerprint"):  # as runs have saved it
        check_here(values["data"], values.get("test", ""), values.get("image_dir", ""))
    flags: dict[str, Any] = {
        "data": data,
        "method": method,
        "net": net,
        "noise": noise,
        "seed": seed,
        "nets": nets,
    }
    flags |= {
        "validation": validation,
        "augment": augment,
        "device": device,
        "precision": precision,
        "limit": limit,
        "weights": weights,
    }
    own = {
        "test": test,
        "image_size": image_size,
        "path_column": path_column,
        "label_column": label_column,
        "image_dir": image_dir,
    }
    flags |= own
    if pretrained:
        if weights is not None:
            raise InputError(f"There are --pretrained and --weights {weights}: give one of them.")
        flags["weights"] = PRETRAINED
    given = {name: value for name, value in flags.items() if value is not None}
    if given.keys() & {"data", "noise", "seed", "limit", *own}:
        values.pop("fingerprint", None)  # other labels than the file's run had
    if given.keys() & {"method"} and given["method"] != values.get("method"):
        values.pop("settings", None)
    if given.keys() & {"weights", "net"}:
        values.pop("weights_fingerprint", None)  # other ones than the file's run had
    values |= given
    settings = {**values.pop("settings", {}), **_pairs(set_ or [])}
    for name, value in {"epochs": epochs, "cuts": cuts}.items():
        if value is not None:
            if (twice := _pairs(set_ or []).get(name, value)) not in (value, str(value)):
                raise InputError(f"There are --{name} {value} and --set {name}={twice}: give one of them.")
            settings[name] = value
    if "data" not in values:
        raise InputError(
            "There is no data: name a data set, a folder or a file, as in `labelsift fit fashion-demo`."
        )
    with Reporter(quiet, choices=True) as reporter:
        if resume and out is not None and not begun:
            reporter({"warning": f"There is no run in {out} that could be finished: this begins a new one."})
        result = api.fit(
            values.pop("data"),
            settings=settings,
            out=out or _default_folder,
            resume=resume,
            compile=compile,
            data_dir=data_dir,
            observe=reporter,
            checkpoint_seconds=checkpoint_seconds,
            **values,
        )
    if not quiet:
        if not reporter.total:
            reporter({"warning": f"The run {result.folder} was finished already: nothing was trained."})
        for line in summary(result):
            reporter.console.print(line, markup=False)
    if result.config.data not in DATASETS:  # one's own, which one wants to look at
        file = write_report(result, data_dir)
        reporter.console.print(f"report         {file}", markup=False)


def summary(result: Result) -> list[str]:
    """What came out, in a few lines."""
    lines = []
    kinds = {"test accuracy  ": result.test_accuracy, "ensemble       ": result.ensemble_test_accuracy}
    for name, accuracy in kinds.items():
        if not accuracy:
            continue
        best = f"best {percent(accuracy['best'])} (epoch {accuracy['best_epoch']})"
        line = f"{best}, last {percent(accuracy['last'])}"
        if "best_on_noisy_validation" in accuracy:
            line += f", best on noisy validation {percent(accuracy['best_on_noisy_validation'])}"
        lines.append(f"{name}{line}")
    confident = result.record["confident"]
    line = f"{confident['confident']:,} labels the net agrees with"
    if "confident_precision" in confident:
        line += f", precision {percent(confident['confident_precision'])}"
        line += f", recall {percent(confident.get('confident_recall', 0))}"
    doubtful = f"{len(result.suspicious(None)):,} of {len(result.examples):,} labels are doubtful"
    where = shlex.quote(str(result.folder))
    lines += [f"confident      {line}", f"run folder     {result.folder}"]
    return [*lines, f"issues         {doubtful}: labelsift issues {where}"]


def _default_folder(config: Config) -> Path:
    return Path("runs") / config.slug


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for word, (name, equals, _) in zip(words, pairs, strict=True):
        if not (name and equals):
            raise typer.BadParameter(f"'{word}' is not NAME=VALUE, as in --set lr=0.05.")
    return {name.strip(): value for name, _, value in pairs}
