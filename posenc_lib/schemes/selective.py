"""Selective RoPE: every token says by how much all that stands before it is turned.

Movahedi et al. 2025 (arXiv:2511.17388). Each head reads the hidden state x_t of every token:

    omega(x_t) = theta * (W x_t + b),  theta_c = base**(-2c/d)     d/2 angles, one for each pair of components
    s_ij = k_j^T R_{j+1} ... R_i q_i / sqrt(d)                     R_t turns pair c by omega_c(x_t)

Between key and query stands the product of the rotations of the tokens passed, as in FoX the product of their gates.
Rotations of a pair commute, so that one running sum per token is enough, as in RoPE: with Phi(i) the sum of omega over
the tokens up to i, queries and keys are turned by their own. W = 0 and b = 1 give RoPE: the text decides nothing.

Three things are not here that the authors' code (timurcarstensen/selective-rope) has, as options or always: x is
divided by its length, omega is smoothed by a short convolution over the last tokens, and a gate can shut it. Training
starts with b = 1, near RoPE; theirs without b unless asked. And a place without a key (dropped from a cache) turns
nothing.
"""

from torch import Tensor, nn

from posenc_lib import validate
from posenc_lib.scheme import PositionScheme
from posenc_lib.schemes.fox import running_sums
from posenc_lib.schemes.rope import LAYOUTS, cos_sin, inverse_frequencies, turn


def running_angles(omega: Tensor, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
    """Phi: the sum of ``omega`` over the keys up to each query, and up to each key.

    Args:
        omega: (B, H, Lk, d/2) angles of the keys.
        query_positions: (Lq,) or (B, 1, Lq) integers.
        key_positions: (Lk,) or (B, 1, Lk) integers, in any order.
    Returns:
        (B, H, Lq, d/2) and (B, H, Lk, d/2) float64 radians.
    Raises:
        ValueError: shapes that do not fit.
        TypeError: angles that are no floating-point numbers, positions that are no integers.
    Source: Movahedi et al. 2025 (arXiv:2511.17388), the product R_{1:t} of rotations.
    Example:
        >>> omega = torch.tensor([[[[1.0], [0.5], [2.0]]]])
        >>> running_angles(omega, torch.tensor([2, 0]), torch.arange(3))[0]
        tensor([[[[3.5000],
                  [1.0000]]]], dtype=torch.float64)
    """
    validate.floating("omega", validate.tensor("omega", omega, shape="(B, H, Lk, d/2)"))
    by_pair = omega.double().mT  # (B, H, d/2, Lk)
    sums = running_sums(by_pair.flatten(1, 2), query_positions, key_positions)
    phi_q, phi_k = (phi.unflatten(1, by_pair.shape[1:3]).mT for phi in sums)
    return phi_q, phi_k


class SelectiveRotary(PositionScheme):
    """Rotates queries and keys by angles that the tokens add up to; (D + 1) H d/2 parameters, any length.

    It reads the hidden states, which ``attend`` is therefore given as ``x``.

    Args:
        dim: width D of the hidden states.
        num_heads: H.
        head_dim: width d of a head, even.
        base: of the factors theta, as of RoPE; 500 000 in the authors' code.
        layout: which components form a pair, see :func:`posenc_lib.schemes.rope.turn`.
    Raises:
        ValueError: a number out of its range, an odd head_dim, an unknown layout.
    Example:
        >>> from posenc_lib import attend
        >>> x, q = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)
        >>> attend(q, q, q, SelectiveRotary(8, num_heads=2, head_dim=4), causal=True, x=x).shape
        torch.Size([1, 2, 3, 4])
    """

    name = "selective RoPE"
    places = ("query and key",)
    relative = True
    variants = {"half": {"layout": "half"}}

    def __init__(self, dim: int, num_heads: int, head_dim: int, base: float = 10_000.0, layout: str = "interleaved"):
        super().__init__()
        self.dim = validate.integer("dim", dim, at_least=1)
        self.num_heads = validate.integer("num_heads", num_heads, at_least=1)
        self.head_dim = validate.width("head_dim", head_dim)
        self.base = validate.real("base", base, above=0)
        self.layout = validate.choice("layout", layout, LAYOUTS)
        self.theta = inverse_frequencies(head_dim, base)  # no buffer: a cast to bfloat16 must not reach it
        self.steps = nn.Linear(dim, num_heads * head_dim // 2)
        nn.init.ones_(self.steps.bias)

    def omega(self, x: Tensor) -> Tensor:
        """(B, H, L, d/2) float64 angles of hidden states x (B, L, D)."""
        steps = self.steps(x.to(self.steps.weight)).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return steps * self.theta.to(x.device)

    def read_tokens(
        self, x: Tensor | None, query_token: Tensor, key_token: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Cosines and sines (B, H, L, d/2) for queries and keys, from the hidden states x (B, Lk, D) of the keys."""
        omega = self.omega(validate.hidden(x, self.dim, self))
        phi_q, phi_k = running_angles(omega, query_token, key_token)
        return cos_sin(phi_q), cos_sin(phi_k)

    def transform(self, x: Tensor, token: tuple[Tensor, Tensor]) -> Tensor:
        """Queries or keys x (B, H, L, d), turned by the cosines and sines of their running sums."""
        validate.heads("x", x, self.num_heads, self.head_dim)
        return turn(x, *token, self.layout)
