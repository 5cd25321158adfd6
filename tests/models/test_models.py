"""Every network gives (projection, logits) behind the paper's head."""

import pytest
import torch
import torch.nn.functional as F

from fedpdc_med.common.errors import UserError
from fedpdc_med.models import ENCODERS, build_model
from fedpdc_med.runs.plan import Network


def built(name, channels, size, classes, seed, norm="batch"):
    return build_model(Network(name=name, channels=channels, size=size, classes=classes, norm=norm), seed)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_projection_and_logits_have_the_papers_sizes(name, norm):
    model = built(name, channels=3, size=32, classes=7, seed=0, norm=norm).eval()
    projection, logits = model(torch.zeros(2, 3, 32, 32))
    assert projection.shape == (2, 256)
    assert logits.shape == (2, 7)


def test_group_normalisation_leaves_no_batch_statistics():
    for name in ENCODERS:
        state = built(name, 1, 64, 4, seed=0, norm="group").state_dict()
        assert not [entry for entry in state if "running_mean" in entry], name


def test_the_papers_cnn_has_its_layers_and_pools_like_anyone_would():
    model = built("cnn", 3, 32, 10, seed=0)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items() if name.endswith("weight")}
    assert shapes == {
        "encoder.conv1.weight": (6, 3, 5, 5),
        "encoder.conv2.weight": (16, 6, 5, 5),
        "encoder.fc1.weight": (120, 400),
        "encoder.fc2.weight": (84, 120),
        "project.0.weight": (84, 84),
        "project.2.weight": (256, 84),
        "classify.weight": (10, 256),
    }
    x, e = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1)), model.encoder
    as_printed = F.max_pool2d(F.relu(e.conv2(F.max_pool2d(F.relu(e.conv1(x)), 2))), 2)
    as_printed = F.relu(e.fc2(F.relu(e.fc1(as_printed.flatten(1)))))
    assert torch.equal(e(x), as_printed)


def test_small_images_keep_their_size_through_the_stem():
    small, large = built("resnet18", 3, 64, 4, seed=0), built("resnet18", 3, 224, 4, seed=0)
    assert small.encoder.conv1.stride == (1, 1)
    assert large.encoder.conv1.stride == (2, 2)


def test_the_seed_draws_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = (built("cnn", 3, 32, 10, seed=1).state_dict() for _ in range(2))
    other = built("cnn", 3, 32, 10, seed=2).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["classify.weight"], other["classify.weight"])


def test_unknown_model_or_too_small_an_image_is_the_users_mistake():
    with pytest.raises(UserError, match="there is no model 'vgg'"):
        built("vgg", 3, 32, 10, seed=0)
    with pytest.raises(UserError, match="at least 16 x 16"):
        built("cnn", 3, 8, 10, seed=0)
