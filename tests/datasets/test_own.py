"""The data set of one's own as runs know it: its name in tables, its identity, and its options."""

from pathlib import Path
from typing import Any

import pytest
from own_images import prepared, write_images

from augbench.bench.common.errors import UserError
from augbench.bench.data.dataset_checks import load_checked
from augbench.bench.experiment.catalogues import dataset_and_options
from augbench.bench.experiment.labels import label_runs
from augbench.bench.experiment.protocol import Budget
from augbench.bench.experiment.spec import Component, RunSpec, dataset_component, method_component, network_component


def component(prepared: str, **options: Any) -> Component:
    return dataset_component("own", {"prepared": prepared, **options}, "a test")


def labels(*datasets: Component) -> list[str]:
    specs = [
        RunSpec(
            method=method_component("none", {}, "a test"),
            dataset=dataset,
            network=network_component("tiny"),
            budget=Budget(epochs=1),
            seed=0,
        )
        for dataset in datasets
    ]
    return [label.dataset for label in label_runs(specs)]


def test_tables_have_the_name_that_its_user_chose() -> None:
    first, second, cars = (
        component(f"{name}{12 * digit}") for name, digit in (("my-pets-", "1"), ("my-pets-", "2"), ("cars-", "1"))
    )
    assert labels(first, cars) == ["my-pets", "cars"]
    assert labels(first, second) == ["my-pets (checksum=11111111)", "my-pets (checksum=22222222)"]
    assert labels(first, component(first.settings["prepared"], train_images=9)) == [
        "my-pets",
        "my-pets (train_images=9)",
    ]


def test_the_content_is_the_identity() -> None:
    first = component("pets-1f3a9c0b2d4e")
    assert (first.checksum, first.version) == ("sha256:1f3a9c0b2d4e", 1)
    assert first.settings == {"prepared": "pets-1f3a9c0b2d4e"}
    assert first.model_dump() != component("pets-000000000000").model_dump()
    with pytest.raises(UserError, match="twelve digits"):
        component("pets-1F3A9C0B2D4E")


def test_it_is_loaded_with_fewer_training_images_and_planted(tmp_path: Path) -> None:
    made = prepared("images", write_images(tmp_path / "pets", {"a": 20, "b": 20}), tmp_path, side=8)
    for options, count in (({}, 32), ({"train_images": 10}, 10)):
        source, parsed = dataset_and_options("own", {"prepared": made.prepared, **options})
        source.check(parsed, tmp_path)
        data = load_checked(source, parsed, tmp_path)
        assert (len(data.train), len(data.test), data.classes) == (count, 8, 2)
    settings = {"base": "own", "base_options": {"prepared": made.prepared}, "rotation": 45.0}
    planted, parsed = dataset_and_options("planted", settings)
    assert len(load_checked(planted, parsed, tmp_path).train) == 32
