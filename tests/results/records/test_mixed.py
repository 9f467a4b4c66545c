"""What is mixed, unfinished or left out is said and counted, and never averaged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.results.model.frame import load_runs
from augbench.results.model.packing import pack

WriteRun = Callable[..., RunFolder]


def test_runs_without_a_result_are_counted_by_state_and_cause(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    assert (load_runs(tmp_path).warnings(), load_runs(tmp_path).problems) == ([], ())
    write_run("scale", state=RunState.FAILED, status={"cause": "not finite", "reason": "The loss is NaN."})
    write_run("scale", seed=1, state=RunState.FAILED)
    write_run("scale", seed=2, state=RunState.TIMED_OUT)
    write_run("scale", seed=3, state=RunState.PLANNED)
    runs = load_runs(tmp_path)
    causes = [["", ""], ["not finite", "The loss is NaN."], ["exception", ""], ["timed out", ""], ["", ""]]
    assert runs.runs[["cause", "reason"]].to_numpy().tolist() == causes
    assert runs.warnings() == [
        "4 of 5 runs have no result and are in no average: 2 failed, 1 planned, 1 timed out.",
        "Why runs failed: 1 exception, 1 not finite.",
    ]


@pytest.mark.parametrize(
    ("dataset", "options", "left_out"),
    [
        ("rotmnist5k", {"size": 14}, True),
        ("planted", {"rotation": 45.0, "shrink": 2}, True),
        ("planted", {"base_options": {"size": 14}}, False),  # planted at 14 pixels, and turned there by the probe
        ("rotmnist5k", {}, False),
        ("cifar10", {}, False),
    ],
)
def test_probes_that_turned_small_images_are_left_out_and_said(
    tmp_path: Path, write_run: WriteRun, dataset: str, options: dict[str, object], left_out: bool
) -> None:
    write_run("none", dataset=dataset, options=options, probe_pixels=None)
    write_run("none", dataset=dataset, options=options, probe_pixels=28, seed=1)
    for source in (tmp_path, tmp_path / "a.parquet"):
        runs = load_runs(source)
        assert sorted(runs.probe["seed"].unique()) == ([1] if left_out else [0, 1])
        assert [warning[:50] for warning in runs.warnings()] == (
            ["1 rotation probe of an earlier version is left out"] if left_out else []
        )
        assert len(runs.finished()) == 2, "the rest of the record counts"
        pack([tmp_path], tmp_path / "a.parquet")


def test_versions_of_the_code(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none", code={"commit": "a" * 40, "dirty": True})
    write_run("scale", code={"commit": "b" * 40, "dirty": False})
    write_run("scale", seed=1, code={})
    write_run("scale", seed=2, state=RunState.FAILED, gpu=False, code={"commit": "c" * 40})
    unfinished, *code = load_runs(tmp_path).warnings()[:1], *load_runs(tmp_path).warnings()[2:]
    assert len(unfinished) == 1
    assert code == [
        "The runs were made by 3 versions of the code: 1 aaaaaaaaaa, 1 bbbbbbbbbb, 1 unknown.",
        "1 of 3 runs was made by code with uncommitted changes.",
    ]


@pytest.mark.parametrize(
    ("name", "comparisons", "warning"),
    [
        ("version", 1, "Versions of a method are separate rows: none (1, 2)."),
        ("dataset_version", 2, "Versions of a data set are separate groups of rows: mnist5k (1, 2)."),
    ],
)
def test_versions_are_not_averaged(
    tmp_path: Path, write_run: WriteRun, name: str, comparisons: int, warning: str
) -> None:
    for version in (1, 2):
        write_run("none", **{name: version}, seed=version)
    runs = load_runs(tmp_path)
    assert runs.runs["comparison"].nunique() == comparisons and runs.warnings() == [warning]
    assert runs.runs[["comparison", "label"]].drop_duplicates().shape[0] == 2


def test_protocol_versions_are_not_compared(tmp_path: Path, write_run: WriteRun) -> None:
    spec = write_run("none").read_spec()
    older = spec.model_copy(update={"protocol_version": 0})
    folder = write_run("none", seed=1)
    content = (folder.path / "spec.json").read_text().replace(folder.read_spec().identity, older.identity)
    content = content.replace('"protocol_version": 1', '"protocol_version": 0').replace('"seed": 1', '"seed": 0')
    (folder.path / "spec.json").write_text(content)
    result = folder.path / "result.json"
    result.write_text(result.read_text().replace('"identity": "', f'"identity": "{older.identity}", "old": "'))
    runs = load_runs(tmp_path)
    assert runs.runs["comparison"].nunique() == 2 and sorted(runs.runs["protocol_version"]) == [0, 1]
    assert runs.warnings() == ["Runs under protocol versions 0, 1 cannot be compared and are separate groups of rows."]


def test_what_is_left_out_is_counted_and_named(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("none", seed=1, protocol=Protocol(evaluated_on="validation"))
    damaged = write_run("none", seed=2)
    (damaged.path / "result.json").write_text("{")
    for index in range(5):
        (tmp_path / "runs" / f"notes{index}.txt").touch()
    runs = load_runs(tmp_path, skip_damaged=True)
    assert runs.warnings() == [
        f"1 damaged run folder is left out: {damaged.path.name}.",
        "5 files belong to no run and are ignored: notes0.txt, notes1.txt, notes2.txt and 2 more.",
        "1 trial of a tuning is left out: it is evaluated on validation images.",
    ]
    kinds = [problem.kind for problem in runs.problems]
    assert (kinds.count("damaged"), kinds.count("foreign"), kinds.count("trial of a tuning")) == (1, 5, 1)


def test_other_code_may_have_split_the_data_otherwise(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("none", seed=1, labels=[0, 1], probabilities=[(0.9, 0.1), (0.2, 0.8)])
    runs = load_runs(tmp_path)
    said = "Runs that are compared had different numbers of test images: mnist5k (size=14)."
    assert runs.warnings() == [said]
    with pytest.raises(UserError, match="evaluated on 2 and 4 test images"):
        runs.correct("mnist5k (size=14)", "none", 0)


@pytest.mark.parametrize("text", ["{", "[]", '{"attempts": 3}', ""])
def test_a_damaged_environment_is_named(tmp_path: Path, write_run: WriteRun, text: str) -> None:
    folder = write_run("none", gpu=False)
    (folder.path / "environment.json").write_text(text)
    if text:
        with pytest.raises(DamagedError, match=r"environment\.json"):
            load_runs(tmp_path)
    else:  # as if it was not there
        assert load_runs(tmp_path).runs["on_gpu"].tolist() == [None]


def test_a_changed_specification_is_damage_also_where_another_run_of_its_kind_is_sound(
    tmp_path: Path, write_run: WriteRun
) -> None:
    write_run("none")
    spec = write_run("none", seed=1).path / "spec.json"
    spec.write_text(spec.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(DamagedError, match=r"seed1.*identity does not belong"):
        load_runs(tmp_path)


@pytest.mark.parametrize("second", ["{}\n", "nothing\n", '{"epoch": 2, "loss": NaN, "accuracy": 0.5}\n'])
def test_epochs_with_wrong_fields_are_damage_when_they_are_needed(
    tmp_path: Path, write_run: WriteRun, second: str
) -> None:
    folder = write_run("none")
    folder.metrics.write_text(folder.metrics.read_text().splitlines(keepends=True)[0] + second)
    runs = load_runs(tmp_path)
    with pytest.raises(DamagedError, match=r"metrics\.jsonl"):
        _ = runs.trajectories


def test_an_unfinished_line_of_a_run_under_way_is_damage(tmp_path: Path, write_run: WriteRun) -> None:
    folder = write_run("none", state=RunState.FAILED)
    folder.metrics.write_bytes(folder.metrics.read_bytes()[:-5])
    with pytest.raises(DamagedError, match=r"metrics\.jsonl .* truncated"):
        load_runs(tmp_path)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[" * 100_000, b"[]", b"\xff", b'{"state": "running", "owner": 3}', b'{"state": ["done"]}']
)
def test_a_status_that_is_none_says_nothing(tmp_path: Path, write_run: WriteRun, text: bytes) -> None:
    folder = write_run("none", state=RunState.FAILED)
    (folder.path / "status.json").write_bytes(text)
    write_run("none", seed=1)
    state = load_runs(tmp_path).runs["state"].iloc[0]
    assert state in ("planned", "killed", "unknown")
    assert pack([tmp_path], tmp_path / "a.parquet") == (2, ())
    assert load_runs(tmp_path / "a.parquet").runs["state"].iloc[0] == state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metrics": {"0": {"accuracy": {"mean": 93.3}}}}, "metrics.0"),
        ({"metrics": {"0": {"accuracy": {"mean": 0.9, "sd": -0.1}}}}, "metrics.0.accuracy.sd"),
        ({"metrics": {"0": {"accuracy": {"mean": 0.9}, "brier": {"mean": 2.1}}}}, "metrics.0"),
        ({"metrics": {"0": {"accuracy": {"mean": 0.9}, "nll": {"mean": -1}}}}, "metrics.0.nll.mean"),
        ({"metrics": {"4": {"accuracy": {"mean": 0.9}}}}, "metrics"),
        ({"metrics": {}}, "metrics"),
        ({"seconds": {"cpu": {"training": -5}}}, "seconds.cpu.training"),
        ({"image_passes": {"training": -5}}, "image_passes.training"),
        ({"test_images": 0}, "test_images"),
        ({"metrics": {"0": {"accuracy": {"mean": 7.5}, "nll": {"mean": "x"}}}}, "metrics.0.nll.mean .'x', should be"),
        ({"rotation_probe": {"degrees": [0, 90], "accuracy": [0.5]}}, "rotation_probe .there are 2 angles and 1 acc"),
        ({"rotation_probe": {"degrees": [1e308], "accuracy": [0.5]}}, "rotation_probe.degrees.1 .1e.308, should be"),
        ({"rotation_probe": {"degrees": [0], "accuracy": [float("nan")]}}, "rotation_probe.accuracy.1 .nan, should"),
        ({"shift": {"name": "<b>", "images": "recomputed", "scores": []}}, "shift.name .'<b>', string should"),
        ({"shift": {"name": "a", "images": "old", "scores": [{"accuracy": 2}]}}, "shift.images .'old', should"),
        ({"image_passes": {"training": 10**400}}, "image_passes.training .1000"),
        ({"learned": {"rotation": -1e308}}, "learned.rotation .-1e.308, should"),
        ({"train_images": None}, "train_images .should be"),
    ],
)
def test_what_no_run_can_have_given_is_damage(
    tmp_path: Path, write_run: WriteRun, change: dict[str, object], words: str
) -> None:
    folder = write_run("none")
    result = json.loads((folder.path / "result.json").read_text())
    (folder.path / "result.json").write_text(json.dumps(result | change))
    with pytest.raises(DamagedError, match=f"wrong fields: {words}"):
        load_runs(tmp_path)
