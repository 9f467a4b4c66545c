"""Augbench compares learned data augmentations in one shared augmentation space.

What `__all__` names is the public interface, imported when it is first used. Other modules may move.
"""

import os  # which Python itself has loaded; pathlib would take its time

__version__ = "0.1.0"

if not os.path.isdir(f"{__path__[0]}/bench"):  # noqa: PTH112 - a checkout: its folders are at its top
    __path__.append(os.path.dirname(os.path.dirname(__path__[0])))  # noqa: PTH120

TYPE_CHECKING = False  # as in `typing`, which would take its time
if TYPE_CHECKING:
    from augbench.bench.augmentation.affine_space import Block, Draw, Space, to_unit_interval
    from augbench.bench.augmentation.image_operations import ImageSpace
    from augbench.bench.augmentation.policy_description import AffinePolicy, BlockLaw, OperationLaw, OperationPolicy
    from augbench.bench.common.errors import DivergedError, UserError
    from augbench.bench.conformance.checks import check_method
    from augbench.bench.conformance.outcome import ConformanceError, Report
    from augbench.bench.conformance.problem import small_context
    from augbench.bench.contract.method import (
        AugmentedBatch,
        Hyperparameters,
        Method,
        Policy,
        RunContext,
        SharedSpaceMethod,
        repeat,
    )
    from augbench.bench.contract.search import SearchProblem, shuffled_batches
    from augbench.bench.contract.search_space import tunable
    from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData, Split
    from augbench.bench.data.downloads import RemoteFile
    from augbench.bench.data.prepared import Arrays, PreparedOptions, PreparedSource
    from augbench.bench.data.source_files import SourceFile, combined_md5
    from augbench.bench.experiment.protocol import Budget
    from augbench.bench.launchers.launcher import Activity, Launcher, LaunchRequest
    from augbench.bench.networks.base import NetworkSource
    from augbench.bench.predictors.base import Predictor, PredictorContext, PredictorSettings
    from augbench.bench.registry.registry import register
    from augbench.bench.training.trained import TrainedNetwork, load_network
    from augbench.results.figures import write_figure, write_figures
    from augbench.results.figures.style import ONE_COLUMN, figure_style, method_looks, new_figure
    from augbench.results.model.frame import Runs, load_runs
    from augbench.results.model.table import Cell, Column, Row, Table, mean_cell
    from augbench.results.report.page import write_report
    from augbench.results.statistics.bootstrap import mean_interval, paired_difference
    from augbench.results.statistics.improvement import probability_of_improvement
    from augbench.results.statistics.paired import best_methods, holm, paired_p_values
    from augbench.results.statistics.ranks import critical_difference, rank_methods
    from augbench.results.statistics.resolution import Spread, seeds_needed, smallest_difference, spread_of
    from augbench.results.statistics.summary import summarise
    from augbench.results.tables import all_tables, comparison_table, tidy_table, write_table, write_tables

_MODULES = {
    "bench.augmentation.affine_space": "Block Draw Space to_unit_interval",
    "bench.augmentation.image_operations": "ImageSpace",
    "bench.augmentation.policy_description": "AffinePolicy BlockLaw OperationLaw OperationPolicy",
    "bench.common.errors": "DivergedError UserError",
    "bench.conformance.checks": "check_method",
    "bench.conformance.outcome": "ConformanceError Report",
    "bench.conformance.problem": "small_context",
    "bench.contract.method": "AugmentedBatch Hyperparameters Method Policy RunContext SharedSpaceMethod repeat",
    "bench.contract.search": "SearchProblem shuffled_batches",
    "bench.contract.search_space": "tunable",
    "bench.data.dataset": "DatasetOptions DatasetSource ImageData Split",
    "bench.data.downloads": "RemoteFile",
    "bench.data.prepared": "Arrays PreparedOptions PreparedSource",
    "bench.data.source_files": "SourceFile combined_md5",
    "bench.experiment.protocol": "Budget",
    "bench.launchers.launcher": "Activity LaunchRequest Launcher",
    "bench.networks.base": "NetworkSource",
    "bench.predictors.base": "Predictor PredictorContext PredictorSettings",
    "bench.registry.registry": "register",
    "bench.training.trained": "TrainedNetwork load_network",
    "results.figures": "write_figure write_figures",
    "results.figures.style": "ONE_COLUMN figure_style method_looks new_figure",
    "results.model.frame": "Runs load_runs",
    "results.model.table": "Cell Column Row Table mean_cell",
    "results.report.page": "write_report",
    "results.statistics.bootstrap": "mean_interval paired_difference",
    "results.statistics.improvement": "probability_of_improvement",
    "results.statistics.paired": "best_methods holm paired_p_values",
    "results.statistics.ranks": "critical_difference rank_methods",
    "results.statistics.resolution": "Spread seeds_needed smallest_difference spread_of",
    "results.statistics.summary": "summarise",
    "results.tables": "all_tables comparison_table tidy_table write_table write_tables",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "ONE_COLUMN",
    "Activity",
    "AffinePolicy",
    "Arrays",
    "AugmentedBatch",
    "Block",
    "BlockLaw",
    "Budget",
    "Cell",
    "Column",
    "ConformanceError",
    "DatasetOptions",
    "DatasetSource",
    "DivergedError",
    "Draw",
    "Hyperparameters",
    "ImageData",
    "ImageSpace",
    "LaunchRequest",
    "Launcher",
    "Method",
    "NetworkSource",
    "OperationLaw",
    "OperationPolicy",
    "Policy",
    "Predictor",
    "PredictorContext",
    "PredictorSettings",
    "PreparedOptions",
    "PreparedSource",
    "RemoteFile",
    "Report",
    "Row",
    "RunContext",
    "Runs",
    "SearchProblem",
    "SharedSpaceMethod",
    "SourceFile",
    "Space",
    "Split",
    "Spread",
    "Table",
    "TrainedNetwork",
    "UserError",
    "all_tables",
    "best_methods",
    "check_method",
    "combined_md5",
    "comparison_table",
    "critical_difference",
    "figure_style",
    "holm",
    "load_network",
    "load_runs",
    "mean_cell",
    "mean_interval",
    "method_looks",
    "new_figure",
    "paired_difference",
    "paired_p_values",
    "probability_of_improvement",
    "rank_methods",
    "register",
    "repeat",
    "seeds_needed",
    "shuffled_batches",
    "small_context",
    "smallest_difference",
    "spread_of",
    "summarise",
    "tidy_table",
    "to_unit_interval",
    "tunable",
    "write_figure",
    "write_figures",
    "write_report",
    "write_table",
    "write_tables",
]


def __getattr__(name: str) -> object:
    """Import what is public when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"augbench has no {name!r}; `augbench.__all__` lists what it has")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"augbench.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
