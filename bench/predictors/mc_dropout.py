"""Monte Carlo dropout (Gal and Ghahramani, ICML 2016)."""

from pydantic import Field
from torch import nn

from augbench.bench.predictors.base import Predictor, PredictorSettings
from augbench.bench.predictors.layers import Averaged, Draws, Dropout, hidden_places, not_carried, replace_layer
from augbench.bench.registry.registry import register


class MCDropoutSettings(PredictorSettings):
    """Settings of Monte Carlo dropout."""

    rate: float = Field(0.1, ge=0, lt=1, description="probability with which a hidden value is dropped")
    samples: int = Field(30, ge=1, le=1000, description="passes in prediction, each with masks of its own")


@register("mc-dropout")
class MCDropout(Predictor[MCDropoutSettings]):
    """Dropout of hidden values in training and in prediction, whose probabilities are averaged over passes.

    It is on the input of every linear layer and of every convolution of more than one pixel, but for the first: after
    each hidden layer, and in residual networks within the branches and before the last layer. A rate of 0 leaves the
    network as it is.
    """

    title = "dropout that stays on in prediction; mean probability of 30 passes"
    paper = "Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML 2016"
    deviations = (
        "the masks of a pass are the same for all test images, so that a prediction depends on no other image",
        "in residual networks also before the first convolution of a block and before the last layer; the baselines of "
        "Nado et al. 2021 have either one place in each branch or one after every layer, projections included",
        "dropout that a network has of its own, such as smallnet's, stays off in prediction",
    )
    settings_type = MCDropoutSettings

    @property
    def evaluation_passes(self) -> int:
        """As many as samples; without dropout all of them are equal, and one is enough."""
        return self.settings.samples if self.settings.rate else 1

    def convert(self, network: nn.Module) -> nn.Module:
        """Put dropout before each layer whose input is hidden."""
        places = hidden_places(network)
        if not places:
            raise not_carried(self.name, self.context, "it has no hidden layer after which values could be dropped")
        draws = Draws(self.context.seed)
        for name, layer in places:
            replace_layer(network, name, nn.Sequential(Dropout(self.settings.rate, draws), layer))
        return Averaged(network, draws, passes=self.evaluation_passes)
