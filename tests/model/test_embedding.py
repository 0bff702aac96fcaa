"""Embeddings are scaled rows, and matrices that are tied are one parameter under one key."""

import math

import pytest
import torch

from allyouneed.config.model import Role
from allyouneed.model.embedding import Embeddings

ROLES: tuple[Role, ...] = ("source", "target", "output")


def embeddings(tying: str, source_vocab_size: int = 7, target_vocab_size: int = 7) -> Embeddings:
    built = Embeddings(5, source_vocab_size, target_vocab_size, tying)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter)
    return built


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize("tying", ["all", "target", "none"])
def test_an_embedding_is_a_row_times_the_root_of_the_width(tying: str, role: Role) -> None:
    built = embeddings(tying)
    ids = torch.tensor([[3, 0], [6, 6]])
    embedded = built.embed(role, ids)
    for place, row in ((0, 0), 3), ((0, 1), 0), ((1, 0), 6), ((1, 1), 6):
        expected = [math.sqrt(5) * value for value in built.matrix(role)[row].tolist()]
        assert embedded[place].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tying", "keys", "tied"),
    [
        ("all", ["matrices.shared"], {("source", "target"), ("source", "output"), ("target", "output")}),
        ("target", ["matrices.source", "matrices.target"], {("target", "output")}),
        ("none", ["matrices.source", "matrices.target", "matrices.output"], set()),
    ],
)
def test_tied_matrices_are_one_parameter_under_one_key(
    tying: str, keys: list[str], tied: set[tuple[Role, Role]]
) -> None:
    built = embeddings(tying)
    assert sorted(built.state_dict()) == sorted(keys)
    assert sum(parameter.numel() for parameter in built.parameters()) == len(keys) * 7 * 5
    pairs = [(one, other) for one in ROLES for other in ROLES if ROLES.index(one) < ROLES.index(other)]
    assert {pair for pair in pairs if built.matrix(pair[0]) is built.matrix(pair[1])} == tied


def test_all_uses_of_a_tied_matrix_add_to_one_gradient() -> None:
    built = embeddings("all")
    source, target = torch.tensor([[1]]), torch.tensor([[2]])
    (built.embed("source", source).sum() + built.embed("target", target).sum()).backward()
    built.matrix("output")[3].sum().backward()
    gradient = built.matrices["shared"].grad
    assert gradient is not None
    assert gradient[:, 0].tolist() == pytest.approx([0.0, 5**0.5, 5**0.5, 1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("tying", ["target", "none"])
def test_two_vocabularies_have_matrices_of_their_own_sizes(tying: str) -> None:
    built = embeddings(tying, source_vocab_size=11, target_vocab_size=7)
    assert [built.matrix(role).shape for role in ROLES] == [(11, 5), (7, 5), (7, 5)]
