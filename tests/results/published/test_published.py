"""Published numbers: the file that comes with the project, and files of one's own."""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.experiment.budgets import recipe_of
from augbench.bench.experiment.catalogues import datasets, methods, networks
from augbench.bench.experiment.spec import settings_in_words
from augbench.bench.experiment.suite import load_suite
from augbench.results.published import COLUMNS, OF_THE_SETUP, load_published

LINE = dict.fromkeys(COLUMNS, "") | {
    **{"source": "us", "table": "Table 2", "dataset": "mnist5k", "network": "tiny", "method": "scale", "draws": "0"},
    **{"metric": "accuracy", "value": "0.97", "sd": "0.001", "sd_over": "seeds", "n": "10"},
}


def write(path: Path, *lines: dict[str, str], columns: Sequence[str] = COLUMNS) -> Path:
    """Write lines that differ from LINE as given."""
    pd.DataFrame([LINE | line for line in lines], columns=list(columns)).to_csv(path, index=False)
    return path


def value(published: pd.DataFrame, **wanted: object) -> list[float]:
    """Values of all lines with these entries."""
    found = published
    for column, entry in wanted.items():
        found = found[found[column].isna() if entry is None else found[column] == entry]
    return [float(number) for number in found["value"]]


def test_numbers_of_the_paper_are_as_in_its_tables() -> None:
    published = load_published()
    assert tuple(published.columns) == COLUMNS
    in_paper = {"source": "SCALE paper", "dataset": "cifar100", "metric": "accuracy"}
    assert value(published, **in_paper, method="dada", draws=4) == [0.798]
    assert value(published, **in_paper, method="none", draws=0) == [0.731]
    assert value(published, **in_paper, method="trivialaugment", draws=8) == [0.836]
    assert value(published, dataset="svhn", method="scale") == [0.974]
    assert value(published, table="Ablation", method="scale-norm", draws=4) == [0.967]
    assert value(published, method="fast-aa", metric="extra_gpu_hours", draws=None) == [8, 8]
    assert value(published, method="none × sngp", dataset="cifar100", metric="ece") == [0.02]
    # two tables of the paper hold the same number: several sources for one cell
    assert value(published, dataset="cifar10", method="scale", draws=8, metric="accuracy") == [0.969, 0.969]


def test_whose_standard_deviation_it_is_stands_beside_it() -> None:
    published = load_published()
    assert set(published.loc[published["sd"].notna(), "sd_over"]) == {"seeds", "repeats"}
    assert set(published.loc[published["sd"].isna(), "sd_over"]) == {""}
    detailed = published[published["table"] == "CIFARAccuracyDetailed"]
    assert set(detailed["sd_over"]) == {"repeats"}
    (scale,) = detailed.loc[
        (detailed["method"] == "scale") & (detailed["dataset"] == "cifar100") & (detailed["draws"] == 4), "sd"
    ]
    assert scale == 0.0012


def test_names_are_ours() -> None:
    published = load_published()
    assert set(published["dataset"]) <= {entry.name for entry in datasets()}
    assert set(published["network"]) <= {entry.name for entry in networks()}
    paper = published[published["source"] == "SCALE paper"]
    assert set(paper["method"]) <= {entry.name for entry in methods()}
    assert (published.loc[published["metric"].isin(["accuracy", "ece"]), "value"] <= 1).all()


def test_files_of_ones_own_come_after_ours(tmp_path: Path) -> None:
    lines = ({}, {"sd": "", "sd_over": "", "n": "", "draws": ""}, {"metric": "range/rotation", "value": "3.1"})
    mine, ours = load_published([write(tmp_path / "mine.csv", *lines)]), load_published()
    pd.testing.assert_frame_equal(mine.iloc[: len(ours)], ours)
    first, second, learned = (mine.iloc[index] for index in (-3, -2, -1))
    assert (learned["metric"], learned["value"]) == ("range/rotation", 3.1)
    assert (first["value"], first["sd"], first["n"], first["draws"]) == (0.97, 0.001, 10, 0)
    assert pd.isna(second["sd"]) and pd.isna(second["n"]) and pd.isna(second["draws"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"value": "97.0"},
            r"mine\.csv, line 2: accuracy is a fraction between 0 and 1, not a percentage, but it is 97",
        ),
        ({"value": "high"}, r"line 2, column value"),
        ({"value": "nan"}, r"line 2, column value"),
        ({"value": ""}, r"line 2, column value"),
        ({"metric": "acuracy"}, r"There is no metric 'acuracy'\. Did you mean 'accuracy'\? Valid choices: accuracy,"),
        ({"sd_over": ""}, "a standard deviation needs sd_over"),
        ({"sd_over": "runs"}, "line 2, column sd_over"),
        ({"sd": "-1"}, "line 2, column sd"),
        ({"draws": "-1"}, "line 2, column draws"),
        ({"n": "0"}, "line 2, column n"),
        ({"epochs": "many"}, "line 2, column epochs"),
        ({"method": ""}, "line 2, column method"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, line: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_published([write(tmp_path / "mine.csv", line)])


def test_the_columns_of_the_setup_may_be_missing_and_no_others(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", {}, columns=[name for name in COLUMNS if name not in OF_THE_SETUP])
    last = load_published([path]).iloc[-1]
    assert last[["epochs", "batch_size", "copies"]].isna().all()
    assert (last["value"], last["setup"]) == (0.97, "")
    write(path, {}, columns=[*(name for name in COLUMNS if name not in ("n", "note")), "comment"])
    with pytest.raises(UserError, match="without n, note and with 'comment'; published numbers have exactly"):
        load_published([path])
    path = write(tmp_path / "mine.csv", {})
    path.write_text(path.read_text(encoding="utf-8") + "us,Table 3\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"line 3, has more or fewer fields than columns"):
        load_published([path])


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b'source,"table'])
def test_what_is_no_such_file_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"mine\.csv"):
        load_published([path])
    with pytest.raises(UserError, match=r"missing\.csv cannot be read"):
        load_published([tmp_path / "missing.csv"])


def test_the_file_in_the_readme_can_be_read(tmp_path: Path) -> None:
    readme = Path(str(files("augbench.results.published"))) / "README.md"
    (block,) = re.findall(r"^```csv\n(.*?)^```", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.csv").write_text(block, encoding="utf-8")
    last = load_published([tmp_path / "mine.csv"]).iloc[-1]
    assert (last["method"], last["value"], last["sd_over"], last["n"]) == ("scale", 0.9712, "seeds", 10)
    for column in COLUMNS:
        assert f"`{column}`" in readme.read_text(encoding="utf-8")


def test_a_recipe_is_one_that_there_is(tmp_path: Path) -> None:
    about = {"dataset": "cifar10", "network": "wrn-28-10"}
    known = write(tmp_path / "a.csv", about | {"recipe": "autoaugment", "settings": "copies=2"})
    assert load_published([known])["settings"].iloc[-1] == "copies=2"
    for line, words in (
        (about | {"recipe": "autoagment"}, "Did you mean 'autoaugment'"),
        ({"recipe": "autoaugment"}, "no budget of the recipe 'autoaugment' for the data set 'mnist5k'"),
        (about | {"settings": "copies=2"}, "beside a recipe only"),
    ):
        with pytest.raises(UserError, match=words):
            load_published([write(tmp_path / "b.csv", line)])


def test_rows_with_a_recipe_can_be_those_of_its_suites() -> None:
    names = ("published-cifar10", "paper-calibration-cifar10", "paper-calibration-cifar100")
    ours = {
        (
            spec.dataset.name,
            spec.network.name,
            recipe_of(spec.budget, spec.dataset.name, spec.network.name),
            spec.learner,
            settings_in_words(spec.method.settings),
        )
        for name in names
        for spec in load_suite(name).specs()
        if spec.seed == 0
    }
    ours = {kind for kind in ours if kind[2]}
    published = load_published()
    rows = published[published["recipe"] != ""][["dataset", "network", "recipe", "method", "settings"]]
    beside = set(rows.itertuples(index=False, name=None))
    others = {(method, settings.partition("#")[0]) for *_, method, settings in beside - ours}
    assert others == {("fast-aa", "policy="), *((name, "") for name in OF_NO_SUITE)}
    assert {kind[:4] for kind in ours - beside} == {
        ("cifar10", "wrn-28-10", "fast-autoaugment", "none"),
        *(("cifar10", "wrn-40-2", name, "none") for name in ("autoaugment", "fast-autoaugment")),
    }, "of which no number of the recipe was found"


OF_NO_SUITE = ("none × sngp", "none × ensemble", "rank1-bnn-cauchy-4")
