"""Learned positions: against transformers (GPT-2, RoBERTa, OPT), gradients row by row, refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, OPTConfig, OPTModel, RobertaConfig, RobertaModel
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

from loops import assert_refused
from posenc_lib.attention import attend
from posenc_lib.lab import TinyTransformer
from posenc_lib.schemes.learned import Learned, positions_without_padding
from posenc_lib.schemes.none import NoPosition

PADDING = 1  # the token that RoBERTa and OPT pad with
masks = st.integers(1, 12).flatmap(
    lambda length: st.lists(st.lists(st.booleans(), min_size=length, max_size=length), min_size=1, max_size=4)
)


@pytest.mark.parametrize("p", [[3, 4, 5, 6, 7, 8, 9], [9, 0, 4, 4], [[9, 0, 4], [1, 2, 2]]], ids=str)
def test_adds_the_rows_of_the_positions(p):
    p = torch.tensor(p)
    scheme, x = Learned(6, 10), torch.randn(2, p.shape[-1], 6)
    original = x.clone()
    y = scheme.embed(x, p)
    assert torch.equal(x, original)
    for b, row in enumerate(p.expand(2, -1).tolist()):
        for i, position in enumerate(row):
            assert torch.equal(y[b, i], x[b, i] + scheme.table[position])


@pytest.mark.parametrize(("length", "past"), [(1, 0), (5, 4), (16, 0)])
def test_input_is_that_of_gpt_2(length, past):
    """The first state that GPT-2 reports is token plus position."""
    config = GPT2Config(vocab_size=11, n_positions=16, n_embd=8, n_layer=1, n_head=2, embd_pdrop=0.0)
    theirs = GPT2Model(config).double().eval()
    scheme = Learned(8, 16).double()
    scheme.load_state_dict({"table": theirs.wpe.weight})
    tokens, p = torch.randint(11, (2, length)), torch.arange(past, past + length)
    with torch.no_grad():
        expected = theirs(tokens, position_ids=p[None], output_hidden_states=True).hidden_states[0]
        torch.testing.assert_close(scheme.embed(theirs.wte(tokens), p), expected, rtol=0, atol=1e-6)


@given(masks)
def test_positions_are_counted_one_by_one(mask):
    expected = [[-1 if hidden else sum(not m for m in row[:i]) for i, hidden in enumerate(row)] for row in mask]
    ours = positions_without_padding(torch.tensor(mask))
    assert ours.dtype == torch.int64
    assert ours.tolist() == expected


@given(masks, st.integers(0, 5))
def test_positions_are_those_of_roberta(mask, padding_idx):
    is_padding = torch.tensor(mask)
    tokens = torch.where(is_padding, padding_idx, 9)
    theirs = RobertaEmbeddings.create_position_ids_from_input_ids(tokens, padding_idx)
    assert torch.equal(positions_without_padding(is_padding) + padding_idx + 1, theirs)


@given(masks)
def test_rows_are_those_of_opt(mask):
    is_padding = torch.tensor(mask)
    theirs = OPTLearnedPositionalEmbedding(12, 4)
    with torch.no_grad():
        expected = theirs((~is_padding).long())
        assert torch.equal(theirs.weight[positions_without_padding(is_padding) + 2], expected)


def test_nothing_is_added_to_padding():
    scheme, x = Learned(6, 10), torch.randn(1, 5, 6)
    y = scheme.embed(x, torch.tensor([[-1, -1, 0, 1, 2]]))
    assert torch.equal(y[0, :2], x[0, :2])
    assert torch.equal(y[0, 2:], x[0, 2:] + scheme.table[:3])
    y.sum().backward()
    assert (scheme.table.grad[3:] == 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_input_is_that_of_roberta(side):
    config = RobertaConfig(
        vocab_size=11, max_position_embeddings=12, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    theirs = RobertaModel(config).embeddings.double().eval()
    tokens = torch.tensor([[5, 6, 7, 8, 9], [PADDING, PADDING, 5, 6, 7]])
    if side == "right":
        tokens = tokens.flip(1)
    scheme = Learned(8, 12).double()
    scheme.load_state_dict({"table": theirs.position_embeddings.weight})
    rows = positions_without_padding(tokens == PADDING) + PADDING + 1
    x = theirs.word_embeddings(tokens) + theirs.token_type_embeddings.weight[0]
    real = tokens != PADDING
    ours = theirs.LayerNorm(scheme.embed(x, rows))
    torch.testing.assert_close(ours[real], theirs(tokens)[real], rtol=0, atol=1e-6)


def test_tables_have_the_sizes_that_the_course_states():
    with torch.device("meta"):
        bert = BertModel(BertConfig()).embeddings.position_embeddings.weight
        gpt_2 = GPT2Model(GPT2Config()).wpe.weight
        roberta = RobertaModel(RobertaConfig(max_position_embeddings=514)).embeddings.position_embeddings.weight
        opt = OPTModel(OPTConfig()).decoder.embed_positions.weight
    assert (bert.numel(), gpt_2.numel()) == (393_216, 786_432)
    assert (len(roberta), len(opt)) == (514, 2050)
    assert Learned(768, 512).table.numel() == 393_216
    assert Learned(768, 1024).table.numel() == 786_432


def test_gradient_of_a_row_is_the_sum_over_the_tokens_at_it():
    scheme = Learned(4, 9).double()
    p = torch.tensor([[2, 5, 2, 7], [7, 7, 7, 0], [1, 2, 3, 4]])
    weights = torch.randn(3, 4, 4, dtype=torch.float64)
    x = torch.zeros(3, 4, 4, dtype=torch.float64, requires_grad=True)
    (scheme.embed(x, p) * weights).sum().backward()
    expected = torch.zeros(9, 4, dtype=torch.float64)
    for b in range(3):
        for i in range(4):
            expected[p[b, i]] += weights[b, i]
    torch.testing.assert_close(scheme.table.grad, expected, rtol=0, atol=1e-12)
    assert torch.equal(x.grad, weights)


@pytest.mark.parametrize(
    ("make", "factor"),
    [
        (lambda w: torch.optim.SGD(w, lr=0.1), 1),
        (lambda w: torch.optim.Adam(w, lr=0.1), 1),
        (lambda w: torch.optim.AdamW(w, lr=0.1, weight_decay=0), 1),
        (lambda w: torch.optim.AdamW(w, lr=0.1, weight_decay=0.5), 0.95**3),
    ],
)
def test_unseen_rows_stay_or_decay(make, factor):
    scheme = Learned(8, 9).double()
    first = scheme.table.detach().clone()
    model = TinyTransformer(scheme, 5, dim=8, num_heads=2).double()
    optimizer = make(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randint(5, (4, 6))).square().sum().backward()
        optimizer.step()
    if factor == 1:
        assert torch.equal(scheme.table[6:], first[6:])
    else:
        torch.testing.assert_close(scheme.table[6:], factor * first[6:], rtol=1e-12, atol=0)
    assert (scheme.table[:6] != first[:6]).any(-1).all()


def test_renaming_the_positions_changes_nothing():
    """Same rows under other names: same outputs, same gradients, row by row."""
    name = torch.randperm(7)
    plain, renamed = Learned(6, 7).double(), Learned(6, 7).double()
    renamed.table.data[name] = plain.table.data
    x, weights = torch.randn(2, 7, 6, dtype=torch.float64), torch.randn(2, 7, 6, dtype=torch.float64)
    outputs, gradients = [], []
    for scheme, p in ((plain, torch.arange(7)), (renamed, name)):
        y = scheme.embed(x, p)[:, None]
        o = attend(y, y, y, NoPosition())[:, 0]
        (o * weights).sum().backward()
        outputs.append(o)
        gradients.append(scheme.table.grad)
    assert torch.equal(*outputs)
    assert torch.equal(gradients[0], gradients[1][name])


P3, X = torch.arange(3), torch.zeros(1, 3, 8)
REFUSED = [
    (lambda: Learned(8, 0), ValueError, ("max_length", "at least 1", "0")),
    (lambda: Learned(8, 8.5), ValueError, ("max_length", "8.5")),
    (lambda: Learned(8, "8"), TypeError, ("max_length", "'8'")),
    (lambda: Learned(0, 8), ValueError, ("dim", "at least 1", "0")),
    (lambda: Learned(None, 8), TypeError, ("dim", "None")),
    (lambda: Learned(8, 3).embed(X, P3 + 1), ValueError, ("positions", "0..2", "got 3")),
    (lambda: Learned(8, 3).embed(X, P3 - 2), ValueError, ("positions", "0..2", "got -2")),
    (lambda: Learned(8, 3).embed(X, P3[None] + 2), ValueError, ("positions", "0..2", "got 3")),
    (lambda: Learned(6, 3).embed(X, P3), ValueError, ("x must", "6", "8")),
    (lambda: Learned(8, 3).embed(X[0], P3), ValueError, ("x must", "(3, 8)")),
    (lambda: Learned(8, 3).embed(X, P3[:2]), ValueError, ("positions", "(1, 3)", "got (2,)")),
    (lambda: Learned(8, 3).embed(X, P3.expand(2, 3)), ValueError, ("positions", "(1, 3)", "got (2, 3)")),
    (lambda: Learned(8, 3).embed(X, P3 / 2), TypeError, ("positions", "float32")),
    (lambda: Learned(8, 3).embed(X, [0, 1, 2]), TypeError, ("positions", "list")),
    (lambda: positions_without_padding(P3[None]), TypeError, ("is_padding", "bool", "int64")),
    (lambda: positions_without_padding(P3 > 1), ValueError, ("is_padding", "(3,)")),
    (lambda: positions_without_padding([[True]]), TypeError, ("is_padding", "list")),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals_name_argument_and_value(call, error, words):
    assert_refused(call, error, words)
