"""The figure of a probe with corrupted images."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from probed import corruption_rows

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import write_figures
from augbench.results.figures.corruptions import corruptions_figure
from augbench.results.figures.style import method_looks
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]


def test_lines_are_means_over_corruptions_and_seeds(write_run: WriteRun, tmp_path: Path) -> None:
    for method, seed in (("mine", 0), ("none", 0), ("none", 1), ("yours", 0)):
        write_run(method, seed=seed, root=tmp_path / "out")
    runs = load_runs(tmp_path / "out")
    with pytest.raises(UserError, match="augbench probe OUT --kind corruptions --out PROBES"):
        corruptions_figure(runs)
    probed = replace(runs, corruptions=corruption_rows(runs.runs.to_dict("records")))
    (axes,) = corruptions_figure(probed).axes
    lines = {str(line.get_label()): line for line in axes.lines}
    # fog takes 2 points a severity, snow 4; speckle noise is extra
    for label, start in (("none", 80.5), ("mine", 70.0)):
        np.testing.assert_allclose(np.asarray(lines[label].get_xdata()), range(6))
        np.testing.assert_allclose(np.asarray(lines[label].get_ydata(), dtype=float), start - 3 * np.arange(6))
    some = replace(probed, corruptions=probed.corruptions[probed.corruptions["label"] == "yours"])
    (axes,) = corruptions_figure(some).axes
    drawn = {str(line.get_label()): line.get_color() for line in axes.lines}
    assert drawn["yours"] == method_looks(runs.runs)["yours"].colour  # as in all other figures
    names = {path.stem for path in write_figures(probed, tmp_path / "figures", formats=["svg"])}
    assert "corruptions" in names and not (tmp_path / "figures" / "corruptions-2.svg").exists()
    assert "corruptions" not in {path.stem for path in write_figures(runs, tmp_path / "other", formats=["svg"])}


def test_each_set_has_its_figure_and_each_source_its_panel(write_run: WriteRun, tmp_path: Path) -> None:
    for method in ("none", "mine"):
        write_run(method, root=tmp_path / "out")
    runs = load_runs(tmp_path / "out")
    frame = corruption_rows(runs.runs.to_dict("records"))
    bar = frame.assign(
        corruptions="corruptions-bar", images=np.where(frame["label"] == "none", "original", "recomputed")
    )
    probed = replace(runs, corruptions=pd.concat([frame, bar], ignore_index=True))
    written = write_figures(probed, tmp_path / "figures", formats=["svg"])
    assert {"corruptions", "corruptions-bar"} <= {path.stem for path in written}
    figure = corruptions_figure(probed, "corruptions-bar")
    shown = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]
    assert [axes.get_title() for axes in figure.axes] == [
        f"{runs.runs['comparison'].iloc[0]}, {kind}" for kind in ("original", "recomputed")
    ]
    assert any("corruptions of CIFAR-10-C̄, original or recomputed" in " ".join(text.split()) for text in shown)
