"""The short comparison of `augbench recommend`: the built-in suite on one's own data set, at a budget that is kept."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import NotReadError, make_folder, read_json, write_json
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.suite import Suite, built_in_suites, parse_suite

FILE = "recommend.json"
SUITE = "recommend"
MORE_FILE, MORE_SEEDS = "more-seeds.toml", 2
"""The suite with this many times as many seeds."""

SMALL, NETWORK_OF_SMALL = 20, "tiny"
"""Images of up to so many pixels a side are too small for the suite's network, whose first convolution has stride 2."""


LEAST_TRAIN, LEAST_TEST = 100, 50
"""Fewest images; with 50 test images one image is 2 points."""


class ShortComparison(BaseModel):
    """What one folder of `augbench recommend` compares; written before the first run, never changed.

    Attributes:
        prepared: The data set, an option of `own`.
        minutes: What the user has given.
        network: The network.
        epochs: Epochs of the budget.
        seeds: Number of seeds, from 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prepared: str
    minutes: float = Field(gt=0)
    network: str
    epochs: int = Field(ge=1)
    seeds: int = Field(ge=1)

    def text(self, seeds: int | None = None) -> str:
        """Write the suite as TOML; with another number of seeds if one is given."""
        own = f'{{ name = "own", options = {{ prepared = "{self.prepared}" }} }}'
        values = {
            "title": f'"A short comparison on {self.prepared}"',
            "seeds": str(list(range(seeds or self.seeds))),
            "network": f'"{self.network}"',
            "datasets": f"[{own}]",
            "epochs": str(self.epochs),
        }
        text = re.sub(r"\A(#.*\n)+", "", built_in_suites()[SUITE])
        for key, value in values.items():
            text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
        return text

    def suite(self) -> Suite:
        """Return the suite."""
        return parse_suite(self.text(), "the suite of a recommendation")

    @property
    def budget(self) -> Budget:
        """The budget of every run."""
        (comparison,) = self.suite().comparisons
        if comparison.budget is None:
            raise ValueError(f"the suite {SUITE!r} has no budget of its own")
        return comparison.budget


@dataclass(frozen=True)
class Asked:
    """What a command asks for."""

    prepared: str
    minutes: float
    network: str


def network_for(side: int) -> str:
    """Choose the network by the side of the images, in pixels."""
    return NETWORK_OF_SMALL if side <= SMALL else parse_suite(built_in_suites()[SUITE], SUITE).comparisons[0].network


def read_comparison(out: Path) -> ShortComparison | None:
    """Read what an output folder compares; None where it has nothing, or only measured steps.

    Raises:
        UserError: If the folder holds anything else, or the file is damaged.
    """
    path = out / FILE
    if not path.exists():
        others = {entry.name for entry in out.iterdir()} - {"calibration.json"} if out.is_dir() else set()
        if others:
            raise UserError(
                f"The folder {out} holds no recommendation, but other files, such as {min(others)}. "
                "Choose a new folder with --out."
            )
        return None
    try:
        return ShortComparison.model_validate(read_json(path))
    except NotReadError as error:
        raise UserError(f"{out}: {error}. Choose another folder with --out.") from None
    except (ValueError, ValidationError):
        raise UserError(f"{path} is damaged. Choose a new folder with --out.") from None


def check_same(known: ShortComparison, asked: Asked, out: Path) -> None:
    """Make sure that a folder holds the comparison that is asked for.

    Raises:
        UserError: If the images, the minutes or the network are others.
    """
    new_folder = "Choose a new folder with --out, or"
    if known.prepared != asked.prepared:
        raise UserError(
            f"The folder {out} holds a recommendation for {known.prepared}, and these images are {asked.prepared}: "
            "others, or changed since, or prepared with other options. Choose a new folder with --out."
        )
    if known.minutes != asked.minutes:
        raise UserError(
            f"The folder {out} holds a recommendation for --minutes {known.minutes:g}, whose budget is kept. "
            f"{new_folder} give --minutes {known.minutes:g} to go on with it."
        )
    if known.network != asked.network:
        raise UserError(
            f"The folder {out} holds a recommendation for --network {known.network}. "
            f"{new_folder} give --network {known.network}."
        )


def write_comparison(out: Path, comparison: ShortComparison) -> None:
    """Keep what an output folder compares.

    Raises:
        UserError: If it cannot be written.
    """
    write_json(make_folder(out) / FILE, comparison.model_dump(mode="json"))


def check_enough(train: int, test: int, classes: int, prepared: str) -> None:
    """Make sure that there are enough images for a comparison to mean anything.

    Raises:
        UserError: If there are not.
    """
    problems: Sequence[str] = [
        *([f"{train} training images (at least {LEAST_TRAIN})"] if train < LEAST_TRAIN else []),
        *([f"{test} test images (at least {LEAST_TEST})"] if test < LEAST_TEST else []),
        *([f"more classes ({classes}) than test images ({test})"] if classes > test else []),
    ]
    if problems:
        raise UserError(
            f"{prepared} has too few images for a recommendation: {', '.join(problems)}. Its accuracies would mean "
            "nothing. Add images."
        )
