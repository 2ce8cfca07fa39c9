"""Music Transformer's skew and scores: loops from the paper, transformers, identities, memory, refusals."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import VitsConfig
from transformers.models.vits.modeling_vits import VitsAttention

from loops import draw, loop_outputs
from posenc_lib.attention import attend, scores
from posenc_lib.schemes.music_transformer import MusicTransformer, skew
from posenc_lib.schemes.shaw import Shaw


def make(max_length, d=6, num_heads=None):
    return MusicTransformer(d, max_length, num_heads).double()


def added(scheme, q, i, j):
    """What the scheme adds to the scores of queries at i and keys at j."""
    return scheme.score_bias(q, q, scheme.per_pair(i, j))


def loop_scores(q, k, query_positions, key_positions, table):
    """(q_i . k_j + q_i . E[j - i]) / sqrt(d), one number at a time; no E for the keys after the query.

    ``table`` is (max_length, d), distance 0 last, or one such table per head.
    """
    (batch, heads, n_q, d), n_k = q.shape, k.shape[2]
    s = torch.empty(batch, heads, n_q, n_k, dtype=q.dtype)
    for b in range(batch):
        for h in range(heads):
            rows = table if table.dim() == 2 else table[h]
            for i in range(n_q):
                for j in range(n_k):
                    back = int(query_positions[i]) - int(key_positions[j])
                    total = sum(q[b, h, i, c] * k[b, h, j, c] for c in range(d))
                    if back >= 0:
                        total = total + sum(q[b, h, i, c] * rows[len(rows) - 1 - back, c] for c in range(d))
                    s[b, h, i, j] = total
    return s / math.sqrt(d)


POSITIONS = {
    "one word": (torch.arange(1), torch.arange(1)),
    "even": (torch.arange(6), torch.arange(6)),
    "odd": (torch.arange(7), torch.arange(7)),
    "cache": (torch.arange(5, 8), torch.arange(8)),
    "cache of one": (torch.arange(6, 7), torch.arange(7)),
    "more queries than keys": (torch.arange(7), torch.arange(3)),
    "from 1000": (torch.arange(1000, 1007), torch.arange(1000, 1007)),
    "shifted": (torch.arange(1000, 1003), torch.arange(997, 1004)),
    "scattered": (torch.tensor([3, -8, 40]), torch.tensor([0, 2, 41, 5, -9])),
    "same steps of two": (torch.arange(0, 10, 2), torch.arange(0, 10, 2)),
    "same but backwards": (torch.arange(6).flip(0), torch.arange(6).flip(0)),
    "same words, other order": (torch.arange(6), torch.tensor([3, 0, 5, 1, 4, 2])),
}


@torch.no_grad()
@pytest.mark.parametrize(("num_heads", "spare"), [(None, 0), (2, 9)])
@pytest.mark.parametrize("name", POSITIONS)
def test_scores_and_outputs_are_those_of_the_paper(name, num_heads, spare):
    """``spare`` rows of the table belong to distances that do not occur."""
    query_positions, key_positions = POSITIONS[name]
    longest = max(int(i) - int(j) for i in query_positions for j in key_positions)
    scheme = make(max(longest, 0) + 1 + spare, num_heads=num_heads)
    q, k, v = (draw(2, 2, len(n), 6) for n in (query_positions, key_positions, key_positions))
    expected = loop_scores(q, k, query_positions, key_positions, scheme.table)
    ours = scores(q, k, scheme, query_positions, key_positions)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    o = attend(q, k, v, scheme, True, query_positions, key_positions)
    by_hand = loop_outputs(expected, v, lambda b, i, j: key_positions[j] <= query_positions[i])
    torch.testing.assert_close(o, by_hand, rtol=0, atol=1e-12)


def test_rows_are_counted_from_the_farthest_key_and_keys_after_the_query_share_one_more():
    n, row = make(9).per_pair(torch.tensor([4, 2]), torch.tensor([0, 2, 4, 100]))
    assert n == 5
    assert row.tolist() == [[0, 2, 4, 5], [2, 4, 5, 5]]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_skew_is_a_gather_on_and_below_the_diagonal(length):
    logits = draw(2, 3, length, length)
    skewed = skew(logits)
    assert (skewed.shape, skewed.dtype) == (logits.shape, logits.dtype)
    for i in range(length):
        for j in range(i + 1):
            assert torch.equal(skewed[..., i, j], logits[..., i, length - 1 - (i - j)])


@given(st.integers(1, 9))
def test_skewing_is_what_the_scheme_does_for_positions_without_gaps(length):
    scheme, q, p = make(length), draw(1, 2, length, 6), torch.arange(length)
    skewed = skew(q @ scheme.table.mT / math.sqrt(6))
    torch.testing.assert_close(added(scheme, q, p, p).tril(), skewed.tril())


@pytest.mark.parametrize("length", [2, 3, 7])
def test_above_the_diagonal_stand_the_padding_and_the_next_row(length):
    logits = draw(2, length, length)
    skewed = skew(logits)
    for i in range(length - 1):
        assert torch.equal(skewed[:, i, i + 1], torch.zeros(2, dtype=torch.float64))
        for j in range(i + 2, length):
            assert torch.equal(skewed[:, i, j], logits[:, i + 1, j - i - 2])


def test_skew_of_a_matrix_whose_entries_are_known():
    distances = torch.arange(-3, 1).expand(4, 4)
    assert skew(distances).tolist() == [[0, 0, -3, -2], [-1, 0, 0, -3], [-2, -1, 0, 0], [-3, -2, -1, 0]]


@given(st.integers(0, 12), st.integers(0, 3))
def test_skew_takes_any_axes_in_front(length, axes):
    logits = draw(*range(2, 2 + axes), length, length)
    each = [skew(matrix) for matrix in logits.reshape(-1, length, length)] if logits.numel() else []
    assert skew(logits).shape == logits.shape
    if each:
        assert torch.equal(skew(logits).reshape(-1, length, length), torch.stack(each))


def test_skew_of_a_transposed_and_of_a_sliced_tensor():
    big = draw(9, 9)
    for logits in (big.mT, big[2:7, 1:6], big[::2, ::2]):
        assert torch.equal(skew(logits), skew(logits.clone(memory_format=torch.contiguous_format)))


def test_skew_copies_once_and_then_only_reads_on():
    logits = draw(3, 7, 7)
    skewed = skew(logits)
    assert skewed.untyped_storage().nbytes() == 3 * 7 * 8 * 8
    assert (skewed.storage_offset(), skewed.stride()) == (7, (56, 7, 1))
    skewed.zero_()
    assert (logits != 0).all()


def test_gradient_of_the_skew_goes_to_the_needed_logits_only():
    logits = draw(5, 5).requires_grad_()
    weight = draw(5, 5).tril()
    (skew(logits) * weight).sum().backward()
    for i in range(5):
        for c in range(5):
            j = i + c - 4
            assert logits.grad[i, c] == (weight[i, j] if j >= 0 else 0)


def test_skew_is_that_of_transformers_which_skews_both_ways():
    vits = VitsAttention(VitsConfig(hidden_size=12, num_attention_heads=2))
    for length in (1, 2, 7):
        logits = draw(4, length, 2 * length - 1)
        theirs = vits._relative_position_to_absolute_position(logits)
        assert torch.equal(skew(logits[..., :length]).tril(), theirs.tril())


def test_attention_is_that_of_transformers_without_the_value_term():
    """VITS has one table for both directions, shared by the heads, as wide as its window; it scales the queries."""
    config = VitsConfig(hidden_size=24, num_attention_heads=3, window_size=10, attention_dropout=0.0)
    theirs, scheme, length = VitsAttention(config).double().eval(), make(11, d=8), 11
    with torch.no_grad():
        scheme.table.copy_(theirs.emb_rel_k[0, :11])
        theirs.emb_rel_v.zero_()
        x = draw(2, length, 24)
        mask = torch.full((length, length), -torch.inf).double().triu(1).expand(2, 1, length, length)
        expected, weights = theirs(x, attention_mask=mask, output_attentions=True)
        q, k, v = (
            linear(x).unflatten(-1, (3, 8)).transpose(1, 2) for linear in (theirs.q_proj, theirs.k_proj, theirs.v_proj)
        )
        ours = theirs.out_proj(attend(q, k, v, scheme, causal=True).transpose(1, 2).flatten(-2))
    masked = scores(q, k, scheme) + mask
    torch.testing.assert_close(masked.softmax(-1), weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_heads", [None, 2])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_is_shaw_without_a_clip_and_without_the_value_term(length, num_heads):
    ours, shaw = make(length, num_heads=num_heads), Shaw(6, length - 1, num_heads).double()
    with torch.no_grad():
        shaw.key_table[..., :length, :] = ours.table
        shaw.value_table.zero_()
    q, k, v = (draw(2, 2, length, 6) for _ in range(3))
    torch.testing.assert_close(scores(q, k, ours).tril(), scores(q, k, shaw).tril())
    torch.testing.assert_close(attend(q, k, v, ours, causal=True), attend(q, k, v, shaw, causal=True))


def test_keys_after_the_query_get_nothing_added():
    q, p = draw(2, 2, 7, 6), torch.arange(7)
    bias = added(make(7), q, p, p)
    assert (bias.triu(1) == 0).all()
    assert (bias.tril()[..., p, p] != 0).all()
    assert (added(make(7), q, p, p + 1).triu() == 0).all()


@given(st.integers(1, 11))
def test_scores_of_the_first_words_do_not_change_when_the_text_goes_on(length):
    scheme, q, k = make(12), draw(1, 2, 12, 6), draw(1, 2, 12, 6)
    short = scores(q[:, :, :length], k[:, :, :length], scheme)
    torch.testing.assert_close(short.tril(), scores(q, k, scheme)[:, :, :length, :length].tril())


def test_the_last_row_is_distance_0_and_the_first_the_farthest():
    scheme, q, p = make(4), draw(1, 1, 4, 6), torch.arange(4)
    bias = added(scheme, q, p, p)[0, 0] * math.sqrt(6)
    torch.testing.assert_close(bias[3], q[0, 0, 3] @ scheme.table.mT)
    torch.testing.assert_close(bias[0, 0], q[0, 0, 0] @ scheme.table[3])


def test_rows_of_distances_that_do_not_occur_get_no_gradient():
    scheme = make(8)
    q, k, v = (draw(1, 2, 5, 6) for _ in range(3))
    attend(q, k, v, scheme, causal=True).square().sum().backward()
    assert (scheme.table.grad.abs().sum(-1) > 0).nonzero().flatten().tolist() == [3, 4, 5, 6, 7]


def test_each_head_reads_its_own_table():
    scheme = make(5, num_heads=2)
    q, p = draw(1, 1, 5, 6).expand(1, 2, 5, 6), torch.arange(5)
    before = added(scheme, q, p, p)
    with torch.no_grad():
        scheme.table[1] += 1.0
    after = added(scheme, q, p, p)
    assert torch.equal(before[:, 0], after[:, 0])
    assert (before[:, 1] - after[:, 1]).tril().abs().max() > 0.1


def test_tables_are_counted():
    assert sum(p.numel() for p in MusicTransformer(64, 2048).parameters()) == 2048 * 64
    assert sum(p.numel() for p in MusicTransformer(64, 2048, num_heads=8).parameters()) == 2048 * 512


class Largest(TorchDispatchMode):
    """Notes the most numbers that one tensor holds."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


@pytest.mark.parametrize("num_heads", [None, 3])
@pytest.mark.parametrize("steps", [1, 2])
def test_no_vector_per_pair_is_built(num_heads, steps):
    """One per pair would be 20 * 20 * 64 = 25,600 numbers; nothing is larger than 40 rows of 64 for each of 3 heads."""
    scheme, q, p = make(40, d=64, num_heads=num_heads), draw(1, 3, 20, 64), steps * torch.arange(20)
    with torch.no_grad(), Largest() as largest:
        added(scheme, q, p, p)
    assert 0 < largest.numbers <= 3 * 40 * 64


def test_rows_of_distances_that_do_not_occur_are_not_multiplied():
    """8 of 4096 rows are needed: their logits are 8 by 8, not 8 by 4096."""
    scheme, q, p = make(4096), draw(1, 1, 8, 6), torch.arange(8)
    with torch.no_grad(), Largest() as largest:
        added(scheme, q, p, p)
    assert 0 < largest.numbers <= 8 * 9


def test_the_example_of_the_paper_in_bytes():
    """L = 2048, D = 512 in 8 heads: 8.6 GB of vectors become a table of 4.2 MB; the logits are 134 MB, twice."""
    length, d, heads = 2048, 64, 8
    q, table = (torch.empty(heads, length, d, device="meta") for _ in range(2))
    index = torch.empty(length, length, dtype=torch.int64, device="meta")
    logits = q @ table.mT
    sizes = [x.untyped_storage().nbytes() for x in (table[:, index], table, logits, skew(logits))]
    assert sizes == [8_589_934_592, 4_194_304, 134_217_728, 134_283_264]


def test_the_longest_distance_is_allowed_and_one_more_is_not():
    scheme, q = make(4), draw(1, 1, 1, 6)
    assert scores(q, q, scheme, torch.tensor([3]), torch.tensor([0])).isfinite().all()
    assert scores(q, q, scheme, torch.tensor([0]), torch.tensor([10**9])).isfinite().all()
    with pytest.raises(ValueError, match=r"key_positions must be less than max_length = 4 before the query, got 4"):
        scores(q, q, scheme, torch.tensor([4]), torch.tensor([0]))


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: MusicTransformer(0, 4), ValueError, "head_dim must be at least 1, got 0"),
        (lambda: MusicTransformer(8, 0), ValueError, "max_length must be at least 1, got 0"),
        (lambda: MusicTransformer(8, 2.5), ValueError, "max_length must be an integer, got 2.5"),
        (lambda: MusicTransformer("8", 4), TypeError, "head_dim must be a number, got '8'"),
        (lambda: MusicTransformer(8, None), TypeError, "max_length must be a number, got None"),
        (lambda: MusicTransformer(8, 4, num_heads=0), ValueError, "num_heads must be at least 1, got 0"),
        (lambda: MusicTransformer(8, 4, num_heads="2"), TypeError, "num_heads must be a number, got '2'"),
        (lambda: skew([[1.0]]), TypeError, r"logits must be a tensor \(..., L, L\), got list"),
        (lambda: skew(draw(3, 8)), ValueError, r"logits must have shape \(..., L, L\), got \(3, 8\)"),
        (lambda: skew(draw(2, 7, 13)), ValueError, r"logits must have shape \(..., L, L\), got \(2, 7, 13\)"),
        (lambda: skew(draw(4)), ValueError, r"logits must have shape \(..., L, L\), got \(4,\)"),
        (lambda: attend(*[draw(1, 2, 3, 8)] * 3, make(9)), ValueError, "q must have width head_dim = 6, got 8"),
        (lambda: attend(*[draw(1, 3, 3, 6)] * 3, make(9, num_heads=2)), ValueError, "num_heads = 2 heads, got 3"),
        (lambda: attend(*[draw(1, 1, 3, 6)] * 3, make(9, num_heads=2)), ValueError, "num_heads = 2 heads, got 1"),
        (lambda: attend(*[draw(1, 2, 9, 6)] * 3, make(8)), ValueError, "max_length = 8 before the query, got 8"),
    ],
)
def test_refusals_name_the_argument_and_the_value(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()
