"""The figure of gains against distances."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn import named, text, titles
from matplotlib.text import Text
from probed import corruption_rows, overlap_rows

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder
from augbench.results.figures import write_figures
from augbench.results.figures.overlap import overlap_figure
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]


def test_marks_are_corruptions(write_run: WriteRun, tmp_path: Path) -> None:
    for method, seed in (("scale", 0), ("scale", 1), ("none", 0), ("none", 1)):
        write_run(method, seed=seed, root=tmp_path / "out")
    runs = load_runs(tmp_path / "out")
    with pytest.raises(UserError, match="--kind corruptions --kind overlap --out PROBES"):
        overlap_figure(runs)
    rows = runs.runs.to_dict("records")
    probed = replace(runs, corruptions=corruption_rows(rows), overlap=overlap_rows(rows))
    figure = overlap_figure(probed)
    (axes,) = figure.axes
    assert named(axes) == ["scale"]
    (marks,) = [line for line in axes.lines if line.get_label() == "scale"]
    np.testing.assert_allclose(np.asarray(marks.get_xydata()), [[55, 10], [85, 10], [15, 10]])
    assert [title.get_text() for title in titles(figure) if isinstance(title, Text)] == [
        "mnist5k (size=14), CIFAR-10-C"
    ]
    assert "mean over severities and seeds, n = 2" in text(figure)
    assert "overlap" in {path.stem for path in write_figures(probed, tmp_path / "figures", formats=["svg"])}
