"""Sentences about hand-made numbers."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.results.model.findings import describe_range, findings
from augbench.results.model.frame import load_runs

WriteRun = Callable[..., RunFolder]


def rotations(*degrees: float) -> list[dict[str, float]]:
    return [{"range/rotation": math.radians(one)} for one in degrees]


@pytest.mark.parametrize(
    ("method", "by_seed", "sentence"),
    [
        (
            "scale",
            [
                {
                    **{"probability/rotation": 0.97, "probability/x-scale": 0.6, "probability/y-scale": 0.9},
                    **{"probability/half-turn": 0.4, "probability/flip": 0.1, "probability/crop": 0.59},
                    "range/rotation": math.radians(166),
                    **{"range/x-scale": math.log(1.24), "range/y-scale": math.log(1.04)},
                }
            ],
            "scale (% of images) found rotation up to ±166° (97 %) and scaling along x up to ×1.24 (60 %); used "
            "half-turn (40 %, every other one of them turned upside down) and random crop (59 %) in part; hardly used "
            "scaling along y; left out flip (1 seed).",
        ),
        (
            "augerino",
            [
                {
                    **{"range/x-translation": 0.2, "range/y-translation": 0.02, "range/rotation": math.radians(4)},
                    **{"range/uniform-scale": math.log(1.1), "range/stretch": math.log(1.04)},
                    "range/symmetric-shear": 0.06,
                }
            ],
            "augerino found shifting along x up to ±10 % of the width, scaling up to ×1.10 and shearing along both "
            "axes up to ±0.06; hardly used shifting along y, rotation and stretching (1 seed).",
        ),
        (
            "scale",
            [
                numbers | {"probability/rotation": probability}
                for numbers, probability in zip(rotations(20, 40, 30), (0.5, 0.9, 1.0), strict=True)
            ],
            "scale (% of images) found rotation up to ±30° (by seed 20 to 40, 80 %, by seed 50 to 100) (mean of 3 "
            "seeds).",
        ),
        ("augerino", rotations(28, 32), "augerino found rotation up to ±30° (mean of 2 seeds)."),
        (
            "other",
            [{"range/blur": 0.5, "temperature": 1.25}],
            "other found blur up to ±0.50; ended with temperature = 1.25 (1 seed).",
        ),
    ],
)
def test_what_learners_found(
    tmp_path: Path, write_run: WriteRun, method: str, by_seed: list[dict[str, float]], sentence: str
) -> None:
    for seed, numbers in enumerate(by_seed):
        write_run(method, seed=seed, learned=[numbers])
    assert findings(load_runs(tmp_path)) == [f"On mnist5k (size=14), {sentence}"]


def test_methods_that_learn_nothing_share_a_sentence(tmp_path: Path, write_run: WriteRun) -> None:
    for method in ("none", "fixed", "trivialaugment"):
        write_run(method)
    (sentence,) = findings(load_runs(tmp_path))
    assert sentence.startswith("none, fixed and trivialaugment learn nothing")


def test_ranges_in_units_that_people_think_in() -> None:
    assert describe_range("rotation", [math.pi / 2]) == "±90°"
    assert describe_range("stretch", [math.log(1.35)]) == "×1.35"
    assert describe_range("x-translation", [0.5, 0.1]) == "±15 % of the width"


def test_nothing_finished(tmp_path: Path, write_run: WriteRun) -> None:
    write_run(state=RunState.PLANNED)
    with pytest.raises(UserError, match="1 planned"):
        findings(load_runs(tmp_path))
