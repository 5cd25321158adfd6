"""SCAFFOLD by hand: one parameter, and gradients that autograd gives."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.federation.local_training import reach, train_locally
from fedpdc_med.methods import make_method
from fedpdc_med.methods.parts import Context
from fedpdc_med.methods.scaffold import ControlVariate, control, move_control
from fedpdc_med.models import build_model
from fedpdc_med.models.inference import normalise
from fedpdc_med.runs.plan import LocalSettings, Network, Preparation


class One(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([value]))


def context(own, received, *, kept=None, broadcast=None):
    return Context(One(own), One(received), None, 2, 10, 0.5, kept=kept or {}, broadcast=broadcast or {})


def test_a_sites_control_variate():
    """From 1.0 to 0.4 with a reach of 0.2 is a mean gradient of 3; 0.5 - 0.25 + 3 = 3.25, a change of 2.75."""
    about = context(0.4, 1.0, kept={"w": torch.tensor([0.5])}, broadcast={"w": torch.tensor([0.25])})
    kept, sent = ControlVariate().after(about, reach=0.2)
    assert (kept["w"].item(), sent["w"].item()) == pytest.approx((3.25, 2.75))


def test_the_term_adds_c_minus_c_i_to_the_gradient():
    about = context(0.4, 1.0, kept={"w": torch.tensor([0.5])}, broadcast={"w": torch.tensor([0.25])})
    (gradient,) = torch.autograd.grad(control(None, about), about.model.parameters())
    assert gradient.item() == pytest.approx(-0.25)
    assert control(None, context(0.4, 1.0)) is None


def test_the_servers_control_variate_moves_by_a_share_of_all_sites(server_round):
    """Two of four sites: 0.25 + (2.75 - 0.75) / 4 = 0.75."""
    sent = [{"state": {}, "extra": {"w": torch.tensor([value])}} for value in (2.75, -0.75)]
    made = move_control(server_round(*sent, sites=4, memory={"w": torch.tensor([0.25])}), {"w": torch.tensor([9.0])})
    assert (made.memory["w"].item(), made.state["w"].item()) == (0.75, 9.0)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_reach_is_how_far_sgd_carries_a_constant_gradient(momentum):
    w = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser = torch.optim.SGD([w], lr=0.1, momentum=momentum)
    for _ in range(7):
        w.grad = torch.ones_like(w)
        optimiser.step()
    assert reach(7, 0.1, momentum) == pytest.approx(-w.item())


NETWORK = Network(name="cnn", channels=1, size=16, classes=3)
PREPARATION = Preparation(mean=(127.0,), std=(64.0,))
RNG = np.random.default_rng(0)
FILMS = Films.of(RNG.integers(0, 256, (12, 1, 16, 16), dtype=np.uint8), RNG.integers(0, 3, 12))


def gradient_at(state):
    model = build_model(NETWORK, seed=0)
    model.load_state_dict(state)
    loss = F.cross_entropy(model(normalise(FILMS.images, PREPARATION))[1], FILMS.labels)
    names = [name for name, _ in model.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(model.parameters())), strict=True))


def test_one_full_step_keeps_the_sites_gradient_and_moves_by_the_corrected_one():
    """With one plain step on all films c_i becomes the gradient at w_t, and w moves by -rate * (gradient - c_i + c)."""
    model = build_model(NETWORK, seed=0)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    kept = {name: torch.full_like(value, 0.02) for name, value in model.named_parameters()}
    c = {name: torch.full_like(value, 0.05) for name, value in model.named_parameters()}
    plain = LocalSettings(epochs=1, batch_size=12, learning_rate=0.1, momentum=0, weight_decay=0)
    trained = train_locally(
        model,
        TrainingFilms(FILMS, None, PREPARATION),
        make_method("scaffold").parts(),
        plain,
        round=2,
        rounds=3,
        score=1.0,
        seed=0,
        kept=kept,
        broadcast=c,
    )
    for name, gradient in gradient_at(start).items():
        moved = start[name] - 0.1 * (gradient + 0.03)
        assert torch.allclose(model.state_dict()[name], moved, atol=1e-6), name
        assert torch.allclose(trained.kept[name], gradient, atol=1e-5), name
        assert torch.allclose(trained.extra[name], gradient - 0.02, atol=1e-5), name
