"""Methods without a federation, and what a site trains on when films are shared with it."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedpdc_med.engines.local import DeviceEngine
from fedpdc_med.federation.coordinator import Coordinator
from fedpdc_med.federation.data import initial_model
from fedpdc_med.federation.images import Films, TrainingFilms
from fedpdc_med.federation.local_training import train_locally
from fedpdc_med.federation.pooled import arranged, joined, selected
from fedpdc_med.federation.protocol import seed_for
from fedpdc_med.methods.parts import Parts
from fedpdc_med.runs.directory import scratch_run


def pixels(films):
    return [image.numpy().tobytes() for image in films.images]


def of_sites(federation):
    return [site.films for site in federation.sites.values()]


def after_one_round(federation, folder):
    run = scratch_run(folder)
    record = Coordinator(federation.plan, federation.coordinator, DeviceEngine(federation, "cpu"), run).run_round()
    return load_file(run.checkpoint_file), record


def trained(federation, films, settings, seed):
    """Plain cross-entropy from the initial model, as one site would."""
    model = initial_model(federation.plan)
    train_locally(
        model.to(memory_format=torch.channels_last),
        TrainingFilms(films, None, federation.plan.preparation),
        Parts(),
        settings,
        round=1,
        rounds=1,
        score=1.0,
        seed=seed,
    )
    return model.state_dict()


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_joined_films_keep_their_order_and_can_be_cropped():
    a = Films.of(np.arange(2 * 3 * 4 * 4).reshape(2, 3, 4, 4).astype(np.uint8), np.array([0, 1]))
    b = Films.of(np.full((1, 3, 4, 4), 7, np.uint8), np.array([2]))
    both = joined(selected(a, np.array([1])), b)
    assert both.labels.tolist() == [1, 2]
    assert torch.equal(both.images[0], a.images[1]) and torch.equal(both.images[1], b.images[0])
    assert both.images.permute(0, 2, 3, 1).is_contiguous()


def test_pooled_is_fedavg_over_one_site_with_all_films(tiny_federation, tmp_path):
    federation = tiny_federation("pooled")
    pooled = arranged(federation)
    assert list(pooled.sites) == ["pooled"] and len(pooled.sites["pooled"]) == 30 + 40 + 50 + 60
    assert pixels(pooled.sites["pooled"].films) == [image for films in of_sites(federation) for image in pixels(films)]
    state, record = after_one_round(pooled, tmp_path / "run")
    every = Films(
        *(torch.cat([getattr(films, part) for films in of_sites(federation)]) for part in ("images", "labels"))
    )
    settings = federation.sites["site-0"].settings
    assert same(state, trained(federation, every, settings, seed_for(0, "train", 1, "pooled")))
    assert (record.sites["pooled"].weight, record.bytes) == (1, 0)


def test_pooled_takes_the_films_that_the_sites_hold_and_no_other(tiny_federation):
    federation = tiny_federation("pooled", sites=2)
    some = dataclasses.replace(federation.sites["site-0"], indices=np.array([4, 2]))
    pooled = arranged(dataclasses.replace(federation, sites={**federation.sites, "site-0": some}))
    first, second = map(pixels, of_sites(federation))
    assert pixels(pooled.sites["pooled"].films) == [first[4], first[2], *second]


def test_reference_only_never_holds_a_film_of_a_site(tiny_federation, tmp_path):
    federation = tiny_federation("reference-only")
    alone = arranged(federation)
    public = federation.coordinator
    held = [image for films in of_sites(alone) for image in pixels(films)]
    assert held == pixels(public.correction) + pixels(public.weighting)
    assert not {image for films in of_sites(federation) for image in pixels(films)} & set(held)
    state, _ = after_one_round(alone, tmp_path / "one")
    blank = {
        name: dataclasses.replace(site, films=Films(torch.zeros_like(site.films.images), site.films.labels))
        for name, site in federation.sites.items()
    }
    without, _ = after_one_round(arranged(dataclasses.replace(federation, sites=blank)), tmp_path / "two")
    assert same(state, without)


def test_a_reference_without_a_correction_split_is_used_whole(tiny_federation):
    federation = tiny_federation("reference-only")
    public = dataclasses.replace(federation.coordinator, correction=None)
    (films,) = of_sites(arranged(dataclasses.replace(federation, coordinator=public)))
    assert pixels(films) == pixels(public.weighting)


def test_every_other_method_keeps_its_sites(tiny_federation):
    federation = tiny_federation("data-sharing")
    assert arranged(federation) is federation


def test_who_is_no_site_trains_as_most_sites_do(tiny_federation):
    federation = tiny_federation("pooled", per_site={0: {"epochs": 7}, 2: {"batch_size": 3}})
    assert federation.coordinator.settings == federation.sites["site-1"].settings
    assert arranged(federation).sites["pooled"].settings == federation.sites["site-1"].settings


@pytest.mark.parametrize(("indices", "copies"), [(None, 1), (np.array([3, 1, 4, 15, 9, 2, 6]), 1), (None, 3)])
def test_data_sharing_steps_run_over_a_sites_films_and_the_correction_split_together(
    tiny_federation, tmp_path, indices, copies
):
    federation = tiny_federation("data-sharing", sites=1, settings={"copies": copies})
    site = federation.sites["site-0"]
    if indices is not None:
        site = dataclasses.replace(site, indices=indices)
        federation = dataclasses.replace(federation, sites={"site-0": site})
    state, record = after_one_round(federation, tmp_path / "run")
    own, public = site.films, federation.coordinator.correction
    mine = slice(None) if indices is None else indices
    images = torch.cat([own.images[mine], *[public.images] * copies])
    labels = torch.cat([own.labels[mine], *[public.labels] * copies])
    union = Films.of(images.numpy(), labels.numpy())
    assert same(state, trained(federation, union, site.settings, seed_for(0, "train", 1, "site-0")))
    assert record.sites["site-0"].films == len(site)  # the weight counts its own films
