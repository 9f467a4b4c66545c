"""Shares of a suite for several machines: together they are the suite, and each has the trials of its own runs."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tuned_suite import SHORT, suite_with

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import read_json, write_json
from augbench.bench.experiment.shard import Shard, shard_named
from augbench.bench.experiment.suite import load_suite
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.tuning.stage_record import record_path
from augbench.bench.tuning.stages import stages_of

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_shares_are_the_suite_and_none_overlap(count: int, tmp_path: Path) -> None:
    suite = suite_with()
    shares = [suite.in_shard(Shard(number, count)) for number in range(1, count + 1)]
    runs = Counter(spec.identity for share in shares for spec in share.specs())
    assert runs == Counter(spec.identity for spec in suite.specs())
    found = [stages_of(share, tmp_path) for share in shares]
    trials = Counter(run.spec.identity for stages in found for run in stages.trials)
    assert trials == Counter(run.spec.identity for run in stages_of(suite, tmp_path).trials)
    for stages in found:
        wanted = {run.spec.configuration for run in stages.waiting}
        assert wanted == {search.tuning.base.configuration for search in stages.searches}


def test_the_leaderboard_is_shared_out_evenly() -> None:
    suite = load_suite("leaderboard")
    for count in (2, 4):
        for number in range(1, count + 1):
            specs = suite.in_shard(Shard(number, count)).specs()
            by_data = Counter(spec.dataset.name for spec in specs)
            assert len(specs) == 680 // count and len(by_data) == 4
            assert max(by_data.values()) - min(by_data.values()) <= 20


@pytest.mark.parametrize("text", ["2", "0/4", "5/4", "a/b", "2/2000", "-1/2", "1/0", ""])
def test_other_shares_are_explained(text: str) -> None:
    with pytest.raises(UserError, match=r"Give K/N, the K-th of N shares, such as 2/4"):
        shard_named(text)


def test_a_suite_has_no_more_shares_than_learners_on_data_sets() -> None:
    with pytest.raises(UserError, match=r"--shard 7/8: the suite has 6 methods on data sets .* 6 shares at most"):
        suite_with().in_shard(Shard(7, 8)).specs()


def test_exceptions_from_the_tuning_may_be_for_learners_of_other_shares(tmp_path: Path) -> None:
    suite = suite_with(("trials = 3", "trials = 3\nmethods = { scale = { trials = 2 } }"))
    without, with_scale = (stages_of(suite.in_shard(Shard(number, 6)), tmp_path) for number in (1, 2))
    assert (len(without.searches), len(without.final)) == (0, 3)
    assert [search.tuning.trials for search in with_scale.searches] == [2]
    assert record_path(suite.in_shard(Shard(2, 6)), tmp_path).name == "small.2-of-6.json"


@pytest.mark.slow
@pytest.mark.usefixtures("few_digits")
def test_shares_of_two_machines_are_one_table(
    tmp_path: Path, executed: list[str], augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.toml").write_text(SHORT.replace(', { name = "randaugment" }', ""))
    for number, name in ((1, "a"), (2, "b")):
        code, said, errors = augbench("run", "short.toml", "--shard", f"{number}/2", "--out", name)
        assert code == 0, errors
        assert "--from can be given for the folder of every other share, too" in said
    assert sorted(Counter(name.partition("_")[0] for name in executed).items()) == [("none", 2), ("scale", 4)]
    assert "4 runs: 4 done." in augbench("plan", "short.toml", "--shard", "2/2", "--out", "b")[1]
    assert augbench("run", "short.toml", "--out", "whole", "--have", "a", "--have", "b")[0] == 0
    assert len(executed) == 6, "the whole is there"
    shown = [augbench("tables", "--json", *given) for given in (("--from", "a", "--from", "b"), ("--from", "whole"))]
    assert shown[0][1] == shown[1][1]

    _, _, errors = augbench("tables", "--from", "a", "--from", "whole")
    assert "2 runs were found twice and count once" in " ".join(errors.split())
    (first, *_) = run_folders(tmp_path / "a")
    result = read_json(first.path / "result.json")
    result["metrics"]["0"]["nll"]["mean"] += 1
    write_json(first.path / "result.json", result)
    _, _, errors = augbench("tables", "--from", "whole", "--from", "a")
    assert "1 run was found twice with different results, of which the first counts" in " ".join(
        (said + errors).split()
    )
