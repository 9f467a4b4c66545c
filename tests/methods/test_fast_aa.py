"""Fast AutoAugment as a run: searched for or given, and what is learned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_factories import make_method, some_images

from augbench.bench.augmentation.image_operations import OPERATIONS
from augbench.bench.common.errors import UserError
from augbench.bench.conformance.subject import StoppingObserver, train
from augbench.bench.experiment.spec import RunSpec, method_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.trainer import new_trainer
from augbench.bench.training.worker import execute, load_dataset
from augbench.methods.fast_aa import FastAutoAugment, FastAutoAugmentHyperparameters

CPU = torch.device("cpu")
QUICK = FastAutoAugment.quick_hyperparameters
POLICY = [[["Rotate", 0.5, 0.9], ["Rotate", 0.2, 0.1]], [["Invert", 1.0, 0.5], ["Cutout", 0.25, 1.0]]]

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


def make_fast_aa(**settings: Any) -> FastAutoAugment:
    return make_method(FastAutoAugment, copies=2, settings=settings)


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    """Write a policy file."""
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"sub_policies": POLICY}))
    return path


# A policy that is given


def test_a_run_is_known_by_its_policy_and_not_by_the_file(policy_file: Path, tmp_path: Path) -> None:
    component = method_component("fast-aa", {"policy": str(policy_file)}, "a test")
    assert component.settings == {"policy": POLICY}
    other_place = tmp_path / "other.json"
    other_place.write_text(json.dumps(POLICY))
    assert method_component("fast-aa", {"policy": str(other_place)}, "a test") == component
    assert method_component("fast-aa", {"policy": POLICY}, "a test") == component
    assert method_component("fast-aa", {"policy": POLICY[:1]}, "a test") != component
    assert method_component("fast-aa", {}, "a test").settings == {}
    assert str(tmp_path) not in component.model_dump_json()


def test_a_specification_gives_the_policy_back(policy_file: Path, make_spec: MakeSpec) -> None:
    spec = make_spec("fast-aa", policy=str(policy_file))
    policy_file.unlink()
    read = RunSpec.model_validate_json(spec.model_dump_json())
    assert read.identity == spec.identity
    hyperparameters = FastAutoAugmentHyperparameters.model_validate(read.method.all_settings)
    assert hyperparameters == FastAutoAugmentHyperparameters.model_validate({"policy": POLICY})
    assert hyperparameters.model_dump(mode="json")["policy"] == POLICY


def test_a_wrong_file_is_an_error_when_the_suite_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text('[[["Turn", 0.5, 0.9], ["Rotate", 0.2, 0.1]]]')
    with pytest.raises(UserError, match=r"Sub-policy 1 of the policy file .*policy.json: .*'Turn'"):
        method_component("fast-aa", {"policy": str(path)}, "a test")


def test_a_mistake_in_content_names_the_suite() -> None:
    with pytest.raises(UserError, match=r"'fast-aa' in suite 'mine': Sub-policy 1 of `policy`: .*'Turn'") as raised:
        method_component("fast-aa", {"policy": [[["Turn", 0.5, 0.9], ["Rotate", 0.2, 0.1]]]}, "suite 'mine'")
    assert "\n" not in str(raised.value)


def test_settings_of_the_search_mean_nothing_beside_a_policy() -> None:
    settings = {"draws": 7, "search_images": 100, "folds": 5}  # the last is the default
    with pytest.raises(UserError, match=r"settings: search_images, draws mean nothing beside `policy`, .* other[.]$"):
        method_component("fast-aa", {"policy": POLICY, **settings}, "a test")
    with pytest.raises(UserError, match="settings: trials means nothing beside `policy`"):
        method_component("fast-aa", {"policy": POLICY, "trials": 100}, "a test")
    assert method_component("fast-aa", {"policy": POLICY, "folds": 5}, "a test").settings == {"policy": POLICY}
    assert method_component("fast-aa", settings, "a test").settings == {"draws": 7, "search_images": 100}


@pytest.mark.usefixtures("few_digits")
def test_a_given_policy_is_used_without_a_search(
    make_spec: MakeSpec, make_folder: MakeFolder, settings: ExecutionSettings, stop: StopSignal, policy_file: Path
) -> None:
    folder = make_folder(make_spec("fast-aa", policy=str(policy_file)))
    policy_file.unlink()  # workers need no file
    assert execute(folder, settings, stop) is RunState.DONE
    result = folder.read_result()
    assert result is not None
    assert result["image_passes"]["search"] == 0
    learned = {name: value for name, value in result["learned"].items() if value}
    assert learned == {
        "probability/Rotate": pytest.approx((1 - 0.5 * 0.8) / 2),
        "probability/Invert": 0.5,
        "probability/Cutout": 0.125,
    }


def test_a_given_policy_is_what_images_get() -> None:
    method, originals = (
        make_fast_aa(policy=[[["Invert", 1, 0.5], ["Identity", 1, 0]], [["Solarize", 1, 1]] * 2]),
        some_images(200),
    )
    copies = method.augment(originals, torch.Generator().manual_seed(0)).images
    doubled = originals.repeat(2, 1, 1, 1) / 255
    inverted = ((copies - (1 - doubled)).abs() < 1e-6).all((1, 2, 3))
    same = ((copies - doubled).abs() < 1e-6).all((1, 2, 3))
    assert (inverted ^ same).all()
    assert 150 < inverted.sum() < 250


# A policy that is searched for


def test_nothing_is_done_to_images_before_the_search() -> None:
    method = make_fast_aa()
    copies = method.augment(some_images(200), torch.Generator().manual_seed(0)).images
    assert torch.equal(copies, some_images(200).repeat(2, 1, 1, 1).float() / 255)
    assert set(method.learned().values()) == {0.0}


@pytest.mark.usefixtures("few_digits")
def test_what_is_found_fits_and_is_used(make_spec: MakeSpec, settings: ExecutionSettings) -> None:
    spec = make_spec("fast-aa", **QUICK)
    trained = new_trainer(spec, load_dataset(spec.dataset, settings.data), torch.device("cpu"))
    train(trained, StoppingObserver(search_only=True))
    found = trained.method.learnable
    count, room = int(found["count"]), QUICK["folds"] * QUICK["kept_trials"] * 5
    assert found["operations"].shape == (room, 2)
    assert 0.8 * room <= count <= room
    assert (found["operations"][:count] != OPERATIONS.index("Identity")).all()
    assert not found["probabilities"][count:].any()
    learned = trained.method.learned()
    for name in OPERATIONS[1:]:
        used = found["probabilities"] * (found["operations"] == OPERATIONS.index(name))
        expected = (1 - (1 - used[:count, 0]) * (1 - used[:count, 1])).mean()
        assert learned[f"probability/{name}"] == pytest.approx(float(expected), abs=1e-6)
    assert trained.cost.image_passes["search"] > 0
