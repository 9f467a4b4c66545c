"""Finished runs are built again as they were, or it is said why not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from short_runs import Runs, result_of

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json, write_torch
from augbench.bench.common.randomness import generator
from augbench.bench.data.dataset import ImageData
from augbench.bench.experiment.spec import Component, RunSpec
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.bench.training.evaluation import predict, predict_with_draws
from augbench.bench.training.trained import finished_spec, load_network

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]
CPU = torch.device("cpu")


@pytest.fixture
def pretend(make_spec: MakeSpec, make_folder: MakeFolder) -> Callable[..., RunFolder]:
    """Make the folder of a run that looks finished, with a network if there is a state for it."""

    def make(state: object = None, **components: Component) -> RunFolder:
        spec = make_spec().model_copy(update=components)
        folder = make_folder(spec)
        write_json(folder.path / "result.json", {"identity": spec.identity})
        np.savez(folder.predictions)
        if state is not None:
            write_torch(folder.model, state)
        return folder

    return make


@pytest.mark.parametrize("method", ["none", "scale", "trivialaugment"])
def test_the_network_predicts_what_the_run_recorded(method: str, runs: Runs) -> None:
    folder = runs.done(method)
    torch.manual_seed(77)  # nothing depends on where the global generator is
    trained = load_network(folder, Path("nowhere"), CPU)
    test, policy = trained.data.test, trained.method.test_policy()
    assert trained.spec == folder.read_spec()
    assert not trained.network.training
    with np.load(folder.predictions) as recorded:
        assert np.array_equal(predict(trained.network, test.images), recorded["draws_0"][0])
        assert (policy is not None) == ("draws_2" in recorded)
        if policy is not None:
            again = predict_with_draws(trained.network, test.images, policy, (1, 2), generator(0, "test/0"))
            assert np.array_equal(again[2], recorded["draws_2"][0])
    assert trained.method.learned() == result_of(folder)["learned"]


def test_data_are_loaded_by_whom_the_caller_says(runs: Runs, tmp_path: Path) -> None:
    folder = runs.done("none")

    def missing(component: Component, root: Path) -> ImageData:
        raise UserError(f"No {component.name} in {root}.")

    with pytest.raises(UserError, match=f"^No mnist5k in {tmp_path}.$"):
        load_network(folder, tmp_path, CPU, missing)


@pytest.mark.parametrize(
    ("state", "way_on"),
    [
        (RunState.FAILED, " --retry-failed`, then repeat this command."),
        (RunState.KILLED, "`, then repeat this command."),
        (RunState.PLANNED, "`, then repeat this command."),
    ],
)
def test_an_unfinished_run(state: RunState, way_on: str, make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    folder.write_status(state)
    with pytest.raises(UserError) as error:
        load_network(folder, Path(), CPU)
    assert f"The run in {folder.path} is {state}; only finished ones" in str(error.value)
    assert f"`augbench run SUITE --out {folder.path.parent.parent}{way_on}" in str(error.value)


def test_a_running_run(make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    with folder.claim():
        folder.write_status(RunState.RUNNING)
        with pytest.raises(UserError, match=r"is running; .* Wait until it is done"):
            finished_spec(folder)


def test_a_damaged_folder(make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    (folder.path / "spec.json").write_text("{")
    with pytest.raises(DamagedError):
        finished_spec(folder)


def test_a_missing_network(pretend: Callable[..., RunFolder]) -> None:
    folder = pretend()
    with pytest.raises(UserError, match=r"model\.pt is missing\. Move the folder away"):
        finished_spec(folder)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_damaged_network(content: bytes, few_digits: None, pretend: Callable[..., RunFolder]) -> None:
    folder = pretend(state={})
    folder.model.write_bytes(content)
    with pytest.raises(UserError, match=r"model\.pt is damaged \(\w+\)\. Move the folder away"):
        load_network(folder, Path(), CPU)


@pytest.mark.parametrize("state", [{}, [1, 2], {"identity_": "x"}])
def test_a_network_file_of_something_else(state: object, few_digits: None, pretend: Callable[..., RunFolder]) -> None:
    with pytest.raises(UserError, match=r"model\.pt is damaged"):
        load_network(pretend(state), Path(), CPU)


def test_a_network_of_another_run(few_digits: None, pretend: Callable[..., RunFolder]) -> None:
    with pytest.raises(UserError, match=r"model\.pt belongs to another run\."):
        load_network(pretend({"identity": "0"}), Path(), CPU)


@pytest.mark.parametrize("part", [{}, {"network": {}}, {"network": None, "method": {}}])
def test_a_network_that_does_not_fit(
    part: dict[str, Any], few_digits: None, make_spec: MakeSpec, pretend: Callable[..., RunFolder]
) -> None:
    folder = pretend({"identity": make_spec().identity, **part})
    with pytest.raises(UserError, match=r"model\.pt does not fit the run's network and method"):
        load_network(folder, Path(), CPU)


DIGITS = {"name": "mnist5k", "settings": {"size": 14}}


@pytest.mark.parametrize(
    ("components", "words"),
    [
        ({"method": Component(name="gone", version=1)}, "There is no method 'gone'. .*--plugin"),
        ({"network": Component(name="gone", version=1)}, "There is no network 'gone'"),
        ({"dataset": Component(name="gone", version=1)}, "There is no data set 'gone'"),
        ({"method": Component(name="none", version=1, settings={"gone": 1})}, "There is no key 'gone'"),
        ({"method": Component(name="none", version=77)}, "made with 'none' of version 77; this augbench has 'none' of"),
        ({"network": Component(name="tiny", version=77)}, "made with 'tiny' of version 77"),
        (
            {"dataset": Component(**DIGITS, version=1, checksum="md5:0")},
            r"made with 'mnist5k' of version 1 \(files md5:0\); this augbench has 'mnist5k' of version 1 \(files ",
        ),
    ],
)
def test_a_run_of_what_is_not_here(
    components: dict[str, Component], words: str, pretend: Callable[..., RunFolder]
) -> None:
    folder = pretend(**components)
    with pytest.raises(UserError, match=words) as error:
        finished_spec(folder)
    assert str(error.value).startswith(f"The run in {folder.path} ")
