"""Functional relative encoding: Shaw's place, the sinusoid's vectors, no parameters.

Wei et al. 2019 (arXiv:1909.00204), equations 3 to 5:

    a^K[r] = a^V[r] = P_r with r = j - i clipped to [-clip, clip] and P the sinusoidal encoding of width d.
"""

import torch

from posenc_lib import validate
from posenc_lib.schemes.shaw import Shaw
from posenc_lib.schemes.sinusoidal import encode


class Nezha(Shaw):
    """Shaw's scheme with a fixed sinusoidal table, the same for keys and values.

    Args:
        head_dim: width d of a head, even.
        clip: largest distance with a row of its own.
    """

    def __init__(self, head_dim: int, clip: int = 64):
        super().__init__(validate.width("head_dim", head_dim), clip)
        table = encode(torch.arange(-clip, clip + 1), head_dim)
        del self.key_table, self.value_table
        self.register_buffer("key_table", table, persistent=False)
        self.register_buffer("value_table", table, persistent=False)
