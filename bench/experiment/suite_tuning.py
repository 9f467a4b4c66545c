"""The table `[tuning]` of a suite: how hard its methods are tuned before they are compared."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from augbench.bench.experiment.tuning_cost import SearchKind

LEAST_TRIALS = 2
"""The first trial has the values of the suite, so that one alone tunes nothing."""

Trials = Annotated[int, Field(ge=LEAST_TRIALS, le=10_000)]


class MethodTuning(BaseModel):
    """What is different for one method.

    Attributes:
        trials: Settings to try.
        skip: Whether it keeps the values of the suite.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trials: Trials | None = None
    skip: bool = False

    @model_validator(mode="after")
    def _either(self) -> "MethodTuning":
        if self.skip == (self.trials is not None):
            raise ValueError("needs either `trials` or `skip = true`")
        return self


class SuiteTuning(BaseModel):
    """How every method of a suite is tuned on each of its data sets, with the same effort unless the suite says so.

    It is not part of the identity of a run: the final runs are those that the values found would have anyway.

    Attributes:
        trials: Settings to try for each method and data set, those of the suite among them.
        search: How they are chosen: `random` on every launcher, `optuna` and `asha` on Ray.
        repeats: Runs of each trial, with consecutive seeds.
        seed: Seed of the choice, and of the first run of each trial.
        methods: Exceptions, by the name of a method.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trials: Trials = 12
    search: SearchKind = "random"
    repeats: int = Field(1, ge=1, le=100)
    seed: int = Field(0, ge=0, lt=2**62)
    methods: dict[str, MethodTuning] = {}

    def trials_of(self, method: str) -> int:
        """Return the number of trials of a method; 0 if it is skipped."""
        own = self.methods.get(method, MethodTuning(trials=self.trials))
        return own.trials or 0
