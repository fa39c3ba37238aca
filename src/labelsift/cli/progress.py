"""A run as it is seen from outside: a moving bar on a terminal, plain lines when piped."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

ACCURACIES = {
    "validation": "noisy_validation_accuracy",
    "test": "test_accuracy",
    "ensemble": "ensemble_test_accuracy",
}


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Reporter:
    """Takes the events of `labelsift.fit` and shows them."""

    def __init__(self, quiet: bool = False, stderr: bool = False, choices: bool = False) -> None:
        self.choices = choices  # whether to show what was chosen, and why
        self.console = Console(quiet=quiet, stderr=stderr, highlight=False, emoji=False, soft_wrap=True)
        self.total = 0
        self.examples = 1
        self.seconds: list[float] = []
        self.bar: Progress | None = None
        if self.console.is_terminal and not quiet:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[status]}"),
                console=self.console,
            )

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show one event: the beginning, a warning, that it will be shorter, or an epoch's record."""
        if "download" in event:
            self.download(**event["download"])
        elif "images" in event:
            self.images(**event["images"])
        elif "warning" in event:
            self.console.print(f"note: {event['warning']}", markup=False)
        elif "begin" in event:
            begin = event["begin"]
            self.total, self.examples = begin["total_epochs"], begin["train_examples"]
            self.console.print(begin["sentence"], markup=False)
            for choice in begin["choices"] if self.choices else ():
                self.console.print(f"  {choice['sentence']}", markup=False)
            if self.bar is not None:
                self.bar.add_task(begin["method"], total=self.total, status="")
        elif "shorter" in event:
            self.total -= event["shorter"]["epochs"]
            if self.bar is not None:
                self.bar.update(self.bar.task_ids[-1], total=self.total)
        else:
            self.epoch(event)

    def download(self, file: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        share = f" of {total / 2**20:.0f}" if total else ""
        status = f"{done / 2**20:.0f}{share} MiB"
        if self.bar is None:
            self.console.print(f"download {file}: {status}", markup=False)
            return
        self._move(file, done, total, status)

    def images(self, name: str, what: str, done: int, total: int) -> None:
        """Show how many images have been looked at or decoded; piped, when all have."""
        status = f"{done:,} of {total:,} images {what}"
        if self.bar is not None:
            self._move(f"{name}: {what}", done, total, status)
        elif done == total:
            images = "1 image" if total == 1 else f"{total:,} images"
            self.console.print(f"{name}: {images} {what}", markup=False)

    def _move(self, task: str, done: int, total: int | None, status: str) -> None:
        assert self.bar is not None
        if not self.bar.tasks or self.bar.tasks[-1].description != escape(task):
            self.bar.add_task(escape(task), total=total, status="")
        self.bar.update(self.bar.task_ids[-1], completed=done, status=status)

    def epoch(self, record: dict[str, Any]) -> None:
        """Show where the run is and how it fares."""
        self.seconds = [*self.seconds[-4:], record["seconds"]]
        stage = f"net {record['net']}, {record['stage']}" if "net" in record else record["stage"]
        left = (self.total - record["epoch"]) * sum(self.seconds) / len(self.seconds)
        words = []
        if "train_loss" in record:
            words.append(f"loss {record['train_loss']:.3f}")
        for name, key in ACCURACIES.items():
            if key in record:
                words.append(f"{name} {percent(record[key])}")
        if "test_accuracy" not in record and "train_accuracy" in record:
            words.append(f"train {percent(record['train_accuracy'])}")
        if "confident" in record:
            words.append(f"confident {percent(record['confident'] / self.examples)}")
        words.append(f"left {clock(left)}")
        status = "  ".join(words)
        if self.bar is not None:
            task = self.bar.task_ids[-1]
            where = f"{stage}, epoch {record['epoch']}/{self.total}"
            self.bar.update(task, completed=record["epoch"], description=where, status=status)
        else:
            where = f"epoch {record['epoch']}/{self.total}  {stage} {record['stage_epoch']}"
            self.console.print(f"{where}  {status}", markup=False)
