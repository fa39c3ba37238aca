"""The paper's figures from run folders, as SVG and PNG."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from labelsift.errors import InputError

Curve = Mapping[float, Sequence[float]]  # x -> the values of the runs
Panels = Mapping[str, Mapping[str, Curve]]  # panel -> curve's name -> curve


def draw(panels: Panels, title: str, x: str, out: Path, mark_best: bool) -> list[Path]:
    """One panel per noise, a line per curve (the mean of its runs) and a dotted line at its best."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Figures need matplotlib: pip install 'labelsift[figures]'.") from None
    figure = Figure(figsize=(4 * len(panels), 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (panel, curves) in zip(axes, panels.items(), strict=True):
        for number, (name, curve) in enumerate(curves.items()):
            places = sorted(curve)
            means = [100 * statistics.mean(curve[place]) for place in places]
            colour = f"C{number}"
            axis.plot(places, means, marker="o", markersize=3, color=colour, label=name)
            if mark_best and places:
                axis.axvline(places[means.index(max(means))], linestyle=":", linewidth=1, color=colour)
        axis.set_title(panel)
        axis.set_xlabel(x)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy, %")
    axes[0].legend(fontsize=8)
    figure.suptitle(title)
    out.parent.mkdir(parents=True, exist_ok=True)
    files = [out.with_name(out.name + suffix) for suffix in (".svg", ".png")]
    for file in files:
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
    return files
