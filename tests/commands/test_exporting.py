"""`augbench export`: which run it takes, where the policy comes from, what the file says, and wrong input."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_factories import make_method, seeded, some_images
from paragraphs import fails_in_one_paragraph
from short_runs import written

from augbench.bench.augmentation.policy_description import AffinePolicy, PolicyDescription, read_description
from augbench.bench.common.files import read_json, write_json
from augbench.bench.contract.method import Method
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import RunSpec, method_component
from augbench.bench.runs.execution_settings import ExecutionSettings
from augbench.bench.runs.run_folder import RunState
from augbench.bench.training.stopping import StopSignal
from augbench.bench.training.worker import execute
from augbench.methods.policy import GivenPolicy

CommandLine = Callable[..., tuple[int, str, str]]
MakeSpec = Callable[..., RunSpec]
DEMO = Path(__file__).parent.parent.parent / "results" / "measured" / "demo.parquet"
RUNS = (("scale", 3), ("scale", 1), ("none", 1), ("none", 3), ("fixed", 1), ("trivialaugment-wide", 1))


@pytest.fixture
def out(few_digits: None, make_spec: MakeSpec, kept: Path, settings: ExecutionSettings, stop: StopSignal) -> Path:
    """Make an output folder with finished runs, and one that was killed."""
    if not list(kept.iterdir()):
        for method, seed in RUNS:
            folder = written(kept, make_spec(method, seed=seed, epochs=2))
            assert execute(folder, settings, stop) is RunState.DONE
        written(kept, make_spec("augerino", seed=2)).write_status(RunState.KILLED)
    return kept


def run_of(out: Path, method: str, seed: int = 1) -> Path:
    (found,) = (out / "runs").glob(f"{method}_*_seed{seed}_*")
    return found


def policy_in(file: Path) -> PolicyDescription:
    return read_description(str(file))


def copy_without(run: Path, to: Path, *, policy: bool = False, model: bool = False) -> Path:
    """Copy a run as earlier versions left it: without the description of its policy, or its trained state."""
    copy = to / "old" / "runs" / run.name
    shutil.copytree(run, copy)
    if not policy:
        result = read_json(copy / "result.json")
        assert result.pop("policy")
        write_json(copy / "result.json", result)
    if not model:
        (copy / "model.pt").unlink()
    return copy


def test_a_run_becomes_a_file_that_draws_as_it_did(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    file, run = tmp_path / "new" / "policy.py", run_of(out, "scale")
    code, text, errors = augbench("export", run, "--out", file)
    assert (code, errors) == (0, "")
    assert text.splitlines()[0] == f"{file}: the policy of {run.name}, seed 1 (the run was named)"
    names: dict[str, Any] = {}
    exec(file.read_text(), names)  # noqa: S102 - what we have just written
    state = torch.load(run / "model.pt", weights_only=True)["method"]
    method = make_method(methods().get("scale"))
    method.load_state_dict(state)
    policy, images = method.test_policy(), some_images(20)
    assert policy is not None
    made = names["LearnedPolicy"](seeded(1)).floats(images)
    torch.testing.assert_close(made, policy(images, seeded(1)), atol=1e-5, rtol=0)


def test_the_header_has_the_evidence(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    file = tmp_path / "policy.json"
    assert augbench("export", "--from", out, "--method", "scale", "--to", "json", "--out", file)[0] == 0
    origin = json.loads(file.read_text())["origin"]
    accuracies = {
        (method, seed): read_json(run_of(out, method, seed) / "result.json")["metrics"]["0"]["accuracy"]["mean"]
        for method in ("scale", "none")
        for seed in (1, 3)
    }
    mean = (accuracies["scale", 1] + accuracies["scale", 3]) / 2
    assert origin["method"].startswith("scale, version 1")
    assert origin["data set"] == "mnist5k (size=14)"
    assert origin["seed"] == "1 (the lowest of 2 seeds)"
    assert origin["test accuracy"].startswith(f"{100 * mean:.1f} % (95 % interval ")
    assert origin["test accuracy"].endswith(f"over 2 seeds, {100 * accuracies['scale', 1]:.1f} % with this one")
    gain = mean - (accuracies["none", 1] + accuracies["none", 3]) / 2
    sign = "+" if gain > 0 else "−"
    assert origin["against none"].startswith(f"{sign}{abs(100 * gain):.1f} points (95 % interval ")
    assert origin["against none"].endswith("over 2 seeds, not tested")
    assert {"run", "trained with", "exported"} <= set(origin)


def test_without_none_there_is_nothing_to_compare_with(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    copy, file = copy_without(run_of(out, "scale"), tmp_path, policy=True), tmp_path / "policy.py"
    assert augbench("export", copy, "--out", file)[0] == 0
    assert "# against none: there are no runs of none" in file.read_text()
    alone = copy.rename(tmp_path / "alone")
    assert augbench("export", alone, "--out", file)[0] == 0  # an exported file is replaced
    assert "no other runs beside it" in file.read_text()


def test_the_seed_is_the_lowest_or_the_one_asked_for(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    for words, seed in (((), 1), (("--seed", "3"), 3)):
        file = tmp_path / f"{seed}.json"
        command = ("export", "--from", out, "--method", "scale", *words, "--to", "json", "--out", file)
        code, text, _ = augbench(*command)
        assert (code, f"seed {seed} (" in text) == (0, True)
        result = read_json(run_of(out, "scale", seed) / "result.json")
        assert policy_in(file).model_dump(mode="json") == result["policy"]


def test_a_run_is_named_by_the_start_of_its_name(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    file = tmp_path / "policy.json"
    assert augbench("export", "fixed_", "--from", out, "--to", "json", "--out", file)[0] == 0
    assert policy_in(file) == make_method(methods().get("fixed")).describe_policy()


@pytest.mark.parametrize("method", ["scale", "fixed", "trivialaugment-wide"])
def test_records_of_earlier_versions_give_the_same_policy(
    method: str, out: Path, tmp_path: Path, augbench: CommandLine
) -> None:
    run, file = run_of(out, method), tmp_path / "policy.json"
    copy = copy_without(run, tmp_path)
    assert augbench("export", copy, "--to", "json", "--out", file)[0] == 0
    assert policy_in(file).model_dump(mode="json") == read_json(run / "result.json")["policy"]


def test_archives_keep_the_policy(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    for ending in ("parquet", "tar.gz"):
        archive, file = tmp_path / f"runs.{ending}", tmp_path / f"{ending}.json"
        assert augbench("archive", "--from", out, "--out", archive)[0] == 0
        words = ("--method", "trivialaugment-wide", "--to", "json", "--out", file)
        assert augbench("export", "--from", archive, *words)[0] == 0
        run = run_of(out, "trivialaugment-wide")
        assert policy_in(file).model_dump(mode="json") == read_json(run / "result.json")["policy"]


def test_the_demo_of_the_repository_is_exported(tmp_path: Path, augbench: CommandLine) -> None:
    file = tmp_path / "policy.json"
    words = ("--from", DEMO, "--method", "scale", "--dataset", "rotmnist5k", "--to", "json", "--out", file)
    assert augbench("export", *words)[0] == 0
    policy = policy_in(file)
    assert isinstance(policy, AffinePolicy)
    (laws,) = policy.compositions
    assert 0.5 < laws[0].range < 1.5  # radians of rotation
    said = fails_in_one_paragraph(
        augbench("export", "--from", DEMO, "--method", "scale", "--out", file, "--to", "json"), "2 kinds of runs"
    )
    assert said


def test_the_trained_state_is_loaded_where_the_record_has_no_description(
    few_digits: None,
    make_spec: MakeSpec,
    settings: ExecutionSettings,
    stop: StopSignal,
    tmp_path: Path,
    augbench: CommandLine,
) -> None:
    spec = make_spec("dada", **methods().get("dada").quick_hyperparameters)
    run, file = written(tmp_path / "out", spec), tmp_path / "policy.json"
    assert execute(run, settings, stop) is RunState.DONE
    copy = copy_without(run.path, tmp_path, model=True)
    assert augbench("export", copy, "--to", "json", "--out", file, "--data", settings.data)[0] == 0
    assert policy_in(file).model_dump(mode="json") == read_json(run.path / "result.json")["policy"]
    (copy / "model.pt").unlink()
    said = ("keeps neither a description", "model.pt")
    assert fails_in_one_paragraph(augbench("export", copy, "--out", tmp_path / "x.py"), *said)


def test_the_method_policy_has_an_identity_of_the_content(
    out: Path, make_spec: MakeSpec, settings: ExecutionSettings, stop: StopSignal, tmp_path: Path, augbench: CommandLine
) -> None:
    file, other = tmp_path / "policy.json", tmp_path / "copy.json"
    assert augbench("export", "--from", out, "--method", "scale", "--to", "json", "--out", file)[0] == 0
    other.write_text(json.dumps({"policy": json.loads(file.read_text())["policy"], "augbench_policy": 1}))
    by_path = [method_component("policy", {"policy": str(path)}, "a test") for path in (file, other)]
    assert by_path[0] == by_path[1] == method_component("policy", by_path[0].all_settings, "a test")
    run = written(tmp_path / "out", make_spec("policy", policy=str(file)))
    assert execute(run, settings, stop) is RunState.DONE
    images = some_images(10)
    given = make_method(GivenPolicy, settings={"policy": str(file)})
    scale = make_method(methods().get("scale"))
    scale.load_state_dict(torch.load(run_of(out, "scale") / "model.pt", weights_only=True)["method"])
    policies = [method.test_policy() for method in (given, scale)]
    first, second = (policy(images, seeded(3)) for policy in policies if policy is not None)
    assert torch.equal(first, second)
    again = tmp_path / "again.json"
    assert augbench("export", run.path, "--to", "json", "--out", again)[0] == 0
    assert policy_in(again) == policy_in(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "OUT"], "4 kinds of runs that fit: "),
        (["--from", "OUT", "--method", "sclae"], "Did you mean 'scale'?"),
        (["--from", "OUT", "--dataset", "cifar10"], "There is no dataset in"),
        (["--from", "OUT", "--method", "scale", "--seed", "7"], "Seeds: 1, 3."),
        (["--from", "OUT", "--method", "augerino"], "is finished (killed)"),
        (["--from", "OUT", "--method", "none"], "trains on the images as they are: it has no policy to export"),
        (["--from", "OUT", "--method", "scale", "--to", "tensorflow"], "There is no target 'tensorflow'"),
        (["--from", "OUT", "--method", "trivialaugment-wide", "--to", "kornia"], "--to torchvision or --to json"),
        (["--from", "OUT", "--method", "trivialaugment-wide", "--to", "albumentations"], "--to torchvision or"),
        (["scale", "--from", "OUT", "--method", "scale"], "--method scale has nothing to choose"),
        (["nosuch", "--from", "OUT"], "There is no run 'nosuch'"),
        (["OUT/runs/nosuch"], "is no run folder"),
        (["OUT"], "is no run folder"),
        (["--from", "OUT/nosuch", "--method", "scale"], "does not exist"),
        ([], "Nothing says which run to export"),
    ],
)
def test_wrong_choices(words: list[str], said: str, out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    given = [word.replace("OUT", str(out)) for word in words]
    assert fails_in_one_paragraph(augbench("export", *given, "--out", tmp_path / "policy.py"), said)
    assert not (tmp_path / "policy.py").exists()


def test_an_unfinished_run_is_refused(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    outcome = augbench("export", run_of(out, "augerino", 2), "--out", tmp_path / "policy.py")
    assert fails_in_one_paragraph(outcome, "is killed; only finished ones have a policy", "Go on with `augbench run")


def test_files_of_others_are_left_alone(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    file = tmp_path / "policy.py"
    file.write_text("print('mine')\n")
    command = ("export", run_of(out, "fixed"), "--out", file)
    assert fails_in_one_paragraph(augbench(*command), "has not written it", "--force")
    assert file.read_text() == "print('mine')\n"
    assert augbench(*command, "--force")[0] == 0
    assert augbench(*command)[0] == 0
    assert augbench(*command, "--to", "json")[0] == 0
    assert augbench(*command)[0] == 0
    file.write_text('{"augbench_policy": 1, "policy": {"kind": "affine"}}')
    assert fails_in_one_paragraph(augbench(*command), "has not written it", "--force")
    file.unlink()
    assert fails_in_one_paragraph(augbench("export", run_of(out, "fixed"), "--out", tmp_path), "is no file")


def test_a_method_without_a_description_is_refused(
    out: Path, tmp_path: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_without(run_of(out, "fixed"), tmp_path)
    monkeypatch.setattr(methods().get("fixed"), "describe_policy", Method.describe_policy)
    outcome = augbench("export", copy, "--out", tmp_path / "policy.py")
    assert fails_in_one_paragraph(outcome, "Implement its hook `describe_policy`")


def test_another_version_of_the_method_is_refused(
    out: Path, tmp_path: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copy_without(run_of(out, "scale"), tmp_path)
    monkeypatch.setattr(methods().get("scale"), "version", 2)
    outcome = augbench("export", copy, "--out", tmp_path / "policy.py")
    assert fails_in_one_paragraph(outcome, "was made with 'scale' of version 1; this augbench has version 2")


def test_a_damaged_recorded_policy_is_refused(out: Path, tmp_path: Path, augbench: CommandLine) -> None:
    copy = copy_without(run_of(out, "scale"), tmp_path, policy=True)
    result = read_json(copy / "result.json")
    result["policy"]["compositions"][0][0]["probability"] = 7
    write_json(copy / "result.json", result)
    outcome = augbench("export", copy, "--out", tmp_path / "policy.py")
    assert fails_in_one_paragraph(outcome, "cannot be read", "compositions.1.1.probability")
