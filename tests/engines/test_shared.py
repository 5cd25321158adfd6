"""Tensors in one block of memory: the same numbers here and there, and one file descriptor for all of them."""

import pickle
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch

from fedpdc_med.common.processes import Workers
from fedpdc_med.engines.shared import Shared


def sent(shared):
    return pickle.loads(ForkingPickler.dumps(shared))


def test_what_arrives_is_what_was_sent_down_to_the_strides():
    images = torch.arange(2 * 3 * 5 * 4, dtype=torch.uint8).view(2, 5, 4, 3).permute(0, 3, 1, 2)
    what = {"images": images, "labels": torch.tensor([1, 2]), "none": torch.empty(0, 3), "name": "north"}
    expected = {name: one.clone() for name, one in what.items() if name != "name"}
    shared = Shared(what)
    arrived = sent(shared)
    for found in (what, arrived):
        assert all(torch.equal(found[name], one) and found[name].dtype == one.dtype for name, one in expected.items())
        assert found["images"].stride() == images.stride() == expected["images"].stride()
    assert arrived["name"] == "north"


def test_both_ends_see_the_same_memory_and_a_tensor_held_twice_lies_there_once():
    films = torch.zeros(1000)
    shared = Shared([films, films])
    first, second = sent(shared)
    films[3] = 7
    assert first[3] == 7
    assert first.data_ptr() == second.data_ptr()
    assert shared.end == 4032  # 4,000 bytes, and the next would begin at a multiple of 64


def test_a_thousand_sites_take_one_descriptor():
    sites = [(torch.full((2, 2), i), torch.tensor([i])) for i in range(1000)]
    before = open_here()
    with Workers(1) as workers:
        workers.open(partial, eval)
        at_first = workers.submit("len(__import__('os').listdir('/dev/fd'))")()
        total = "lambda _: (sum(int(a.sum() + b) for a, b in sites), len(__import__('os').listdir('/dev/fd')))"
        workers.open(eval, total, {"sites": Shared(sites)})
        assert workers.submit("")() == (sum(range(1000)) * 5, at_first + 1)
        assert open_here() < before + 12  # the worker's pipes and the block


def open_here():
    return len(list(Path("/dev/fd").iterdir()))
