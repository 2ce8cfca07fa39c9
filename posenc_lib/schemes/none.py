"""No position at all: the baseline against which every scheme is measured.

Haviv et al. 2022 (arXiv:2203.16634); Kazemnejad et al. 2023 (arXiv:2305.19466).

    s_ij = <q_i, k_j> / sqrt(d)

Without a mask, attention is permutation-equivariant. With a causal mask it is not: a stack of causal layers can count.
"""

from posenc_lib.scheme import PositionScheme


class NoPosition(PositionScheme):
    """Attention that is not told where its tokens are.

    Example:
        >>> from posenc_lib import scores
        >>> same = torch.ones(1, 1, 3, 4)
        >>> scores(same, same, NoPosition())
        tensor([[[[2., 2., 2.],
                  [2., 2., 2.],
                  [2., 2., 2.]]]])
    """

    name = "none"
    places = ()
    relative = True
