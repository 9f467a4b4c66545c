"""`[protocol] shift`: the record of a run is that of the probe afterwards, and what cannot be corrupted is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from short_runs import written
from torch import Tensor, nn

from augbench.bench.augmentation.corruptions.corrupt import corrupt
from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset import Split
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Suite, parse_suite
from augbench.bench.launching.launch import check_data_and_networks
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.corrupted_images import recomputed_images
from augbench.bench.training.metrics import CORRUPTED_SCORES
from augbench.bench.training.shift import corrupted_scores
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.results.model.frame import load_runs
from augbench.results.model.packing import pack
from augbench.results.studies.corruption_probe import probe_corrupted
from augbench.results.studies.probes import finished_runs

MakeSpec = Callable[..., RunSpec]
CPU = torch.device("cpu")
SUITE = """
name = "shifted"
title = "With corrupted test images"
seeds = [0]
[protocol]
shift = "{shift}"
[[comparisons]]
datasets = [{{ name = "planted", options = {{ base_options = {{ size = 14 }}, shrink = {shrink} }} }}]
methods = [{{ name = "none" }}]
network = "tiny"
[comparisons.budget]
epochs = 1
"""


def suite(shift: str = "corruptions", shrink: int = 1) -> Suite:
    return parse_suite(SUITE.format(shift=shift, shrink=shrink), "a test")


def shifted(spec: RunSpec, name: str = "corruptions") -> RunSpec:
    return spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"shift": name})})


@pytest.mark.parametrize(("name", "corruptions"), [("corruptions", 16), ("corruptions-bar", 9)])
def test_the_record_is_that_of_the_probe_afterwards(
    few_digits: None,
    make_spec: MakeSpec,
    tmp_path: Path,
    settings: ExecutionSettings,
    stop: StopSignal,
    name: str,
    corruptions: int,
) -> None:
    out, plain = tmp_path / "out", make_spec("none")
    with_name = shifted(plain, name)
    for spec in (with_name, plain):
        assert execute(written(out, spec), settings, stop) is RunState.DONE
    with_shift, without = (written(out, spec).read_result() or {} for spec in (with_name, plain))
    assert "shift" not in without
    assert (with_shift["shift"]["name"], with_shift["shift"]["images"]) == (name, "recomputed")
    passes = [result["image_passes"]["evaluation"] for result in (with_shift, without)]
    assert passes[0] - passes[1] == 100 * (1 + corruptions * 5)
    assert with_shift["metrics"] == without["metrics"], "nothing else of the run changes"

    runs = finished_runs([written(out, with_name).path])
    expected = probe_corrupted(runs, name, draws=0, data_root=settings.data, device=CPU).frame
    columns = ["folder", "seed", "corruptions", "images", "corruption", "severity", "extra", *CORRUPTED_SCORES]
    assert pack([out], tmp_path / "runs.parquet") == (2, ())
    for source in (out, tmp_path / "runs.parquet"):
        found = load_runs(source)
        pd.testing.assert_frame_equal(found.shift[columns], expected[columns])
        named = expected.assign(comparison=found.shift["comparison"])  # names the protocol, since both are there
        pd.testing.assert_frame_equal(found.corruptions, named, check_dtype=False)


class Darkest(nn.Module):
    """Is sure of class 1 where the mean of an image is below a half, and of class 0 elsewhere."""

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, 2)."""
        dark = images.mean((1, 2, 3)) < 0.5
        return torch.stack((~dark, dark), 1) * 100.0


def test_scores_are_those_of_the_corrupted_images() -> None:
    images = torch.linspace(60, 128, 12 * 196).view(12, 1, 14, 14).to(torch.uint8)
    test, asked = Split(images, torch.ones(12, dtype=torch.int64)), list[float]()
    found = corrupted_scores(Darkest(), recomputed_images(test, "corruptions"), bins=15, after_each=asked.append)
    assert (len(asked), sum(asked)) == (16 * 5, pytest.approx(1)), "shares of the work"
    frame = pd.DataFrame(found.rows).set_index(["corruption", "severity"])
    assert len(frame) == 1 + 16 * 5
    assert frame.loc[("clean", 0), "accuracy"] == 1
    right = {key: corrupt(images, *key).float().mean((1, 2, 3)) < 127.5 for key in frame.index[1:]}
    for key, values in right.items():
        assert frame.loc[key, "accuracy"] == pytest.approx(values.float().mean().item())
        assert frame.loc[key, "ece"] == pytest.approx(1 - values.float().mean().item())
    assert 0 < frame.loc[("brightness", 1), "accuracy"] < 1
    main = [values.numpy() for key, values in right.items() if not frame.loc[key, "extra"]]
    np.testing.assert_allclose(found.right, np.mean(main, axis=0))


def test_identities_change_only_where_it_is_given(make_spec: MakeSpec) -> None:
    spec = make_spec("none")
    stored: dict[str, Any] = spec.model_dump(mode="json")
    del stored["protocol"]["shift"]
    assert RunSpec.model_validate(stored).identity == spec.identity != shifted(spec).identity


def test_images_that_are_too_small_are_refused_before_a_launch(few_digits: None, tmp_path: Path) -> None:
    check_data_and_networks(suite(shrink=1).specs(), tmp_path)
    with pytest.raises(
        UserError, match=r"of 7 × 7 pixels .* at least 14 × 14 pixels.* `shift`, and the data set .planted"
    ):
        check_data_and_networks(suite(shrink=2).specs(), tmp_path)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UserError, match=r"line 6: protocol.shift: .*'corruptions'.*given: 'corruption'"):
        suite(shift="corruption")
