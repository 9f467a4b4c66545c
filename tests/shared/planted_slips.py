"""Methods with one slip each, as newcomers make them: something forgotten, misspelt or returned in another type.

They are no types of the contract on purpose, hence without annotations where these would be wrong.
"""

from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from augbench.bench.augmentation.affine_space import Draw
from augbench.bench.contract.method import AugmentedBatch, Hyperparameters, Method, RunContext, SharedSpaceMethod
from augbench.bench.contract.search import SearchProblem
from augbench.bench.registry.plugins import load_plugin
from augbench.bench.registry.registry import register

Sound: Any = vars(load_plugin(Path(__file__).with_name("planted_faults.py")).module)["Sound"]


# Hooks that are never called


@register("search-without-searches")
class SearchWithoutSearches(Sound):
    """Forgets to say that it searches."""

    def search(self, problem: SearchProblem) -> None:
        """Never called."""
        self.raw.data.fill_(1)


@register("searches-without-search")
class SearchesWithoutSearch(Sound):
    """Says that it searches, and does not."""

    searches = True


@register("american-hook")
class AmericanHook(Sound):
    """Spells a hook in another way."""

    def regularizer(self) -> Tensor:
        """Never called."""
        return -self.strength


@register("underscored-hook")
class UnderscoredHook(Sound):
    """Has a hook's name with an underscore too many."""

    def after_epoch_(self, epoch: int) -> None:
        """Never called."""


@register("joined-hook")
class JoinedHook(Sound):
    """Has a hook's name with an underscore too few."""

    def afterepoch(self, epoch: int) -> None:
        """Never called."""


@register("draw-without-base")
class DrawWithoutBase(Method[Hyperparameters]):
    """Derives from a base that does not draw."""

    title = "undrawn"
    paper = "unpublished"

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Never called."""
        space = self.context.space
        return space.sample(count, torch.ones(len(space.blocks)), space.maxima(generator.device), generator)


# Forgotten


@register("no-base-start")
class NoBaseStart(Method[Any]):
    """Forgets the start of its base."""

    title = "forgetful"
    paper = "unpublished"

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        self.factor = 0.5


@register("no-base-start-used")
class NoBaseStartUsed(Method[Any]):
    """Forgets the start of its base and needs what it makes."""

    title = "forgetful"
    paper = "unpublished"

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        self.factor = torch.zeros((), device=self.context.device)


@register("no-draw")
class NoDraw(SharedSpaceMethod[Hyperparameters]):
    """Does not say how to draw."""

    title = "no draw"
    paper = "unpublished"


class OwnHyperparameters(Hyperparameters):
    """Hyperparameters of a method that does not name them."""

    rate: float = Field(0.1, gt=0, le=1, description="a rate")


@register("no-hyperparameters-type")
class NoHyperparametersType(Method[OwnHyperparameters]):
    """Announces hyperparameters and does not name them."""

    title = "forgetful"
    paper = "unpublished"

    def __init__(self, hyperparameters: OwnHyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.rate = hyperparameters.rate


@register("no-hyperparameters-type-said")
class NoHyperparametersTypeSaid(Method[Any]):
    """Uses hyperparameters and names them nowhere."""

    title = "forgetful"
    paper = "unpublished"

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.rate = hyperparameters.rate


@register("empty-state")
class EmptyState(Sound):
    """Saves nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}


@register("no-zero-grad")
class NoZeroGrad(Sound):
    """Never clears its gradient."""

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Step."""
        self.optimizers["raw"].step()


# Returned in another type


@register("no-network")
class NoNetwork(Sound):
    """Forgets to return the network."""

    def wrap_network(self, network: nn.Module) -> Any:
        """Return nothing."""
        network.eval()


@register("regulariser-tuple")
class RegulariserTuple(Sound):
    """Regularises with a pair."""

    def regulariser(self) -> Any:
        """Two of them."""
        return self.strength, self.strength


@register("regulariser-vector")
class RegulariserVector(Sound):
    """Regularises with a vector."""

    def regulariser(self) -> Any:
        """Two of them."""
        return torch.stack([self.strength, self.strength])


@register("learned-list")
class LearnedList(Sound):
    """Lists numbers without names."""

    def learned(self) -> Any:
        """A list."""
        return [self.strength.item()]


@register("learnable-list")
class LearnableList(Sound):
    """Lists what it learns without names."""

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.learnable: Any = [self.raw]


@register("learnable-number")
class LearnableNumber(Sound):
    """Learns a number that is no tensor."""

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.learnable: Any = {"raw": 0.5}


@register("bare-optimizer")
class BareOptimizer(Sound):
    """Has an optimiser without a name."""

    def __init__(self, hyperparameters: Any, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.optimizers: Any = torch.optim.Adam([self.raw])


@register("policy-text")
class PolicyText(Sound):
    """Names its test policy."""

    def test_policy(self) -> Any:
        """A text."""
        return "flip"


@register("draw-of-numbers")
class DrawOfNumbers(SharedSpaceMethod[Hyperparameters]):
    """Draws what is no draw, which fails in lines that are not its own."""

    title = "numbers"
    paper = "unpublished"

    def draw(self, count: int, generator: torch.Generator) -> Any:
        """Numbers."""
        return [0.0] * count


# Legitimate, and taken for a fault before


@register("given")
class Given(SharedSpaceMethod[Hyperparameters]):
    """Keeps a fixed tensor where it is saved; its search has nothing to look for."""

    title = "a given range"
    paper = "unpublished"
    searches = True
    quick_hyperparameters: ClassVar[dict[str, Any]] = {}

    def __init__(self, hyperparameters: Hyperparameters, context: RunContext) -> None:
        super().__init__(hyperparameters, context)
        self.fraction = torch.full((), 0.5, device=context.device)
        self.learnable = {"share": self.fraction}

    def search(self, problem: SearchProblem) -> None:
        """Nothing to look for."""

    def draw(self, count: int, generator: torch.Generator) -> Draw:
        """Draw from half of every range."""
        space = self.context.space
        probabilities = torch.full((len(space.blocks),), 0.5, device=generator.device)
        return space.sample(count, probabilities, self.fraction * space.maxima(generator.device), generator)


@register("forgetful-search")
class ForgetfulSearch(Given):
    """Passes images through a network and keeps nothing of what it finds."""

    def search(self, problem: SearchProblem) -> None:
        """Look, and forget."""
        with torch.no_grad():
            problem.build_network()(problem.validation.images.float() / 255)
        problem.count_passes(len(problem.validation))


@register("forgetful-step")
class ForgetfulStep(Given):
    """Computes a step from the losses and does not take it."""

    def after_backward(self, losses: Tensor, copies: AugmentedBatch) -> None:
        """Forget."""
        (self.fraction - 0.1 * losses.mean()).clamp(0, 1)


@register("spoken")
class Spoken(Sound):
    """Prints in every step, and has a public function whose name is a little like a hook's."""

    def augment(self, images: Tensor, generator: torch.Generator) -> AugmentedBatch:
        """Print."""
        print("augmenting")  # noqa: T201 - this is what is looked for
        return super().augment(images, generator)

    def losses(self) -> None:
        """A little like `loss`."""
