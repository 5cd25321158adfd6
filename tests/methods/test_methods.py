"""Each method's loss and weights against numbers worked out by hand or a few lines of independent code."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedpdc_med.cli.options import RECOMMENDED
from fedpdc_med.common.errors import UserError
from fedpdc_med.methods import METHODS, make_method
from fedpdc_med.methods.fedpdc import lambda_of, soft_accuracy
from fedpdc_med.methods.moon import contrastive_loss
from fedpdc_med.methods.parts import Batch, Context, local_loss


class TwoOutputs(nn.Module):
    """A linear model that gives (projection, logits), small enough to work out on paper."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x):
        projection = x @ self.weight
        return projection, projection


def context(model, *, global_model=None, previous=None, t=3, score=0.4, public=None, ratio=1.0):
    return Context(model, global_model or model, previous, t, 10, score, public, ratio)


def loss_of(method, **about):
    """Of LOCAL on the two images."""
    projection, logits = LOCAL(IMAGES)
    return local_loss(method.parts(), Batch(IMAGES, LABELS, projection, logits), context(LOCAL, **about))


IMAGES = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
LABELS = torch.tensor([0, 1])
GLOBAL = TwoOutputs([[1.0, 0.0], [0.0, 1.0]])
LOCAL = TwoOutputs([[1.0, 0.5], [0.0, 3.0]])  # squared distance to GLOBAL: 0.25 + 4 = 4.25
CROSS_ENTROPY = (math.log(1 + math.exp(0.5 - 1)) + math.log(1 + math.exp(0 - 3))) / 2


def test_the_table_holds_the_papers_methods():
    assert set(METHODS) >= {"fedavg", "fedprox", "moon", "solo", "fedpdc"}
    assert all(METHODS[name].name == name for name in METHODS)


def test_the_table_holds_what_else_a_public_set_could_be_used_for():
    competitors = {"abavg", "data-sharing", "server-finetune", "learned-weights", "reference-only", "pooled"}
    assert set(METHODS) >= competitors
    for name in competitors:  # none of them changes a site's loss
        loss = loss_of(make_method(name))
        assert loss.item() == pytest.approx(CROSS_ENTROPY, rel=1e-6)


def test_fedavg_loss_is_the_cross_entropy():
    loss = loss_of(make_method("fedavg"))
    assert loss.item() == pytest.approx(CROSS_ENTROPY, rel=1e-6)


def test_fedprox_adds_half_mu_times_the_squared_distance():
    loss = loss_of(make_method("fedprox", mu=0.1), global_model=GLOBAL)
    assert loss.item() == pytest.approx(CROSS_ENTROPY + 0.1 / 2 * 4.25, rel=1e-6)


def test_moon_term_by_hand():
    """Similarity 1 to the global model, 0 to the previous one, temperature 0.5: -log(e^2 / (e^2 + e^0))."""
    z, glob, prev = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0]])
    by_hand = -math.log(math.exp(2) / (math.exp(2) + 1))
    assert contrastive_loss(z, glob, prev, 0.5).item() == pytest.approx(by_hand, rel=1e-6)


def test_moon_term_is_the_cross_entropy_of_the_reference_code():
    """MOON's code stacks both similarities as logits and asks for class 0."""
    z, glob, prev = (torch.randn(16, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    logits = torch.stack([F.cosine_similarity(z, glob), F.cosine_similarity(z, prev)], dim=1) / 0.5
    reference_code = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
    assert torch.allclose(contrastive_loss(z, glob, prev, 0.5), reference_code, atol=1e-6)


def test_moon_is_fedavg_in_a_sites_first_round():
    moon = make_method("moon", mu=5)
    assert loss_of(moon, global_model=GLOBAL).item() == pytest.approx(CROSS_ENTROPY, rel=1e-6)
    later = loss_of(moon, global_model=GLOBAL, previous=TwoOutputs([[0.0, 1.0], [1.0, 0.0]]))
    assert later.item() != pytest.approx(CROSS_ENTROPY, rel=1e-3)


def test_fedpdc_penalty_is_equation_8_and_has_no_gradient():
    """Strength 10 and score 0.4 add exactly 10 * (1 - 0.4) = 6 to the loss, and nothing to its gradient."""
    fedpdc = make_method("fedpdc", correction="penalty", strength=10)
    loss = loss_of(fedpdc, score=0.4)
    assert loss.item() == pytest.approx(CROSS_ENTROPY + 6, rel=1e-6)
    (with_penalty,) = torch.autograd.grad(loss, LOCAL.parameters())
    plain = loss_of(make_method("fedavg"))
    (without,) = torch.autograd.grad(plain, LOCAL.parameters())
    assert torch.equal(with_penalty, without)


def test_fedpdc_proximal_holds_a_site_with_a_low_score_closer():
    fedpdc = make_method("fedpdc", correction="proximal", strength=2)
    loss = loss_of(fedpdc, global_model=GLOBAL, score=0.4)
    assert loss.item() == pytest.approx(CROSS_ENTROPY + 2 * 0.6 / 2 * 4.25, rel=1e-6)


def test_fedpdc_soft_accuracy_adds_one_minus_the_soft_accuracy_on_public_films():
    public = (torch.tensor([[1.0, 0.0]]), torch.tensor([1]))  # logits 1 and 0.5, so class 1 has 1 / (1 + e^0.5)
    by_hand = 2 * 0.6 * (1 - 1 / (1 + math.exp(0.5)))
    fedpdc = make_method("fedpdc", correction="soft-accuracy", strength=2)
    loss = loss_of(fedpdc, score=0.4, public=lambda: public)
    assert loss.item() == pytest.approx(CROSS_ENTROPY + by_hand, rel=1e-6)


def test_the_recommended_method_adds_the_cross_entropy_of_public_films():
    public = (torch.tensor([[1.0, 0.0]]), torch.tensor([1]))  # as above: class 1 has 1 / (1 + e^0.5)
    recommended = make_method(RECOMMENDED, strength=2)
    loss = loss_of(recommended, score=0.4, public=lambda: public)
    by_hand = 2 * 0.6 * math.log(1 + math.exp(0.5))  # strength * (1 - p) * -log of class 1
    assert loss.item() == pytest.approx(CROSS_ENTROPY + by_hand, rel=1e-6)


def test_soft_accuracy_of_even_odds_is_a_half():
    assert soft_accuracy(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0])).item() == pytest.approx(0.5)


@pytest.mark.parametrize("correction", ["penalty", "proximal", "soft-accuracy", "cross-entropy"])
def test_a_site_without_a_score_is_not_corrected(correction):
    fedpdc = make_method("fedpdc", correction=correction, strength=7)
    loss = loss_of(fedpdc, global_model=GLOBAL, score=1.0)
    assert loss.item() == pytest.approx(CROSS_ENTROPY, rel=1e-6)


def test_adaptive_strength_is_half_the_round():
    assert [lambda_of("adaptive", context(LOCAL, t=t)) for t in (1, 2, 100)] == [0.5, 1.0, 50.0]
    assert lambda_of(3.0, context(LOCAL, t=100)) == 3


def test_strength_by_size_lies_between_data_sharing_and_as_many_public_films_as_own():
    method = make_method("fedpdc-ce", strength="by-size")
    assert [method.parts().public.batch_ratio(ratio) for ratio in (0.04, 0.25, 1, 9)] == [0.2, 0.5, 1, 1]
    assert make_method("fedpdc-ce", strength=0.3).parts().public.batch_ratio(0.04) == 1
    loss = loss_of(method, public=lambda: (IMAGES, LABELS), ratio=0.2)
    assert loss.item() == pytest.approx(CROSS_ENTROPY + 0.2 * (1 - 0.4) * CROSS_ENTROPY, rel=1e-6)


def test_fedpdc_can_correct_every_site_alike_to_show_what_the_scores_are_worth():
    alike = make_method("fedpdc", correction_factor="constant", correction="proximal", strength=2)
    loss = loss_of(alike, global_model=GLOBAL, score=0.9)
    assert loss.item() == pytest.approx(CROSS_ENTROPY + 2 / 2 * 4.25, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("fedsgd", {}, "there is no method 'fedsgd'; choose one of"),
        ("fedprox", {"nu": 1}, "method 'fedprox' has no setting 'nu'; its settings are: mu"),
        ("fedpdc", {"correction": "magic"}, "setting 'correction' = 'magic'"),
        ("moon", {"temperature": 0}, "setting 'temperature' = 0"),
        ("fedpdc", {"sharpness": 0}, "setting 'sharpness' = 0"),
        ("server-finetune", {"server_epochs": 0}, "setting 'server_epochs' = 0"),
    ],
)
def test_a_wrong_name_or_setting_says_what_to_do(name, settings, says):
    with pytest.raises(UserError, match=says):
        make_method(name, **settings)
