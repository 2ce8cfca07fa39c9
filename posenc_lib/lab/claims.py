"""What notebooks 20 and 23 say of the results of a contest, as statements that a file bears out or does not.

A statement compares means. It is *sure* if it holds in at least 95 % of the resamples of seeds; a scheme that is not
trained cannot be asked. Nothing here is true by itself: the cells are asked.
"""

from typing import NamedTuple

import numpy as np

from posenc_lib.lab.contest import SEEDS
from posenc_lib.lab.report import Cells, Others, at_rates
from posenc_lib.lab.statistics import LEVEL, MARGIN, Values, share_above
from posenc_lib.lab.trial import TIMES

Side = float | tuple[str, int]


class Statement(NamedTuple):
    """One mean lies above another.

    topic: where it is said.
    words: what is said.
    task: one of ``TASKS``.
    above, below: a scheme, by the name of its class, and how many times the training length; or a number.
    margin: by which they differ at least.
    anyway: count runs that did not meet the criterion, too; for statements that a scheme does not meet it.
    """

    topic: str
    words: str
    task: str
    above: Side
    below: Side
    margin: float = MARGIN
    anyway: bool = False


def why_not(statement: Statement, cells: Cells, n_seeds: int = len(SEEDS)) -> str | None:
    """Why a statement cannot be asked of these cells; None if it can.

    Example:
        >>> from posenc_lib.lab.claims import Statement
        >>> from posenc_lib.lab.statistics import table
        >>> cells = table([], ["Rotary"], ["induction"])
        >>> why_not(Statement("a", "b", "induction", ("Rotary", 1), 0.9), cells)
        'Rotary: not trained yet'
    """
    for side in (statement.above, statement.below):
        if isinstance(side, tuple):
            cell = cells.get((side[0], statement.task))
            if cell is None:
                return f"{side[0]}: takes no part"
            reason = cell.untrained(n_seeds)
            if reason and (not statement.anyway or len(cell.seeds) < n_seeds):
                return f"{side[0]}: {reason}"
    return None


def values(side: Side, task: str, cells: Cells) -> Values | float:
    """The measures of one side by seed."""
    if not isinstance(side, tuple):
        return side
    cell, times = cells[side[0], task], side[1]
    lengths = list(cell.measures)
    return np.array(cell.measures[lengths[TIMES.index(times)]])


def sure(statement: Statement, cells: Cells, n_seeds: int = len(SEEDS)) -> bool | None:
    """Whether a statement is sure, None if it cannot be asked; without a word.

    Example:
        >>> from posenc_lib.lab.claims import Statement
        >>> from posenc_lib.lab.statistics import Cell
        >>> cell = Cell("Alibi", "grid", (0, 1, 2), (True,) * 3, dict.fromkeys((25, 49, 100, 196), (0.9, 0.8, 0.9)))
        >>> sure(Statement("a", "b", "grid", ("Alibi", 8), 0.5), {("Alibi", "grid"): cell}, n_seeds=3)
        True
    """
    if why_not(statement, cells, n_seeds) is not None:
        return None
    above, below = (values(side, statement.task, cells) for side in (statement.above, statement.below))
    return share_above(above, below, statement.margin) >= LEVEL


def whatever_rate(statement: Statement, cells: Cells, others: Others) -> bool | None:
    """Whether a statement holds for all rates that met the criterion: the worst of one side, the best of the other.

    Args:
        statement: one of ``STATEMENTS``.
        cells: means at the rates that were chosen.
        others: what another rate would have said, see :func:`posenc_lib.lab.report.other_rates`.
    Returns:
        None if the statement cannot be asked, or no side has another rate.
    Example:
        >>> from posenc_lib.lab.claims import Statement
        >>> from posenc_lib.lab.statistics import Cell
        >>> seeds, met, lengths = (0, 1, 2, 3, 4), (True,) * 5, (25, 49, 100, 196)
        >>> cells = {("Alibi", "grid"): Cell("Alibi", "grid", seeds, met, dict.fromkeys(lengths, (0.9,) * 5))}
        >>> statement = Statement("a", "b", "grid", ("Alibi", 8), 0.5)
        >>> whatever_rate(statement, cells, {("Alibi", "grid"): {0.01: {196: 0.4}}})
        False
    """
    if why_not(statement, cells) is not None:
        return None
    above, below = (
        at_rates(cells, others, side[0], statement.task, side[1]) if isinstance(side, tuple) else [side]
        for side in (statement.above, statement.below)
    )
    if len(above) == len(below) == 1:
        return None
    return min(above) > max(below) + statement.margin


TEXT = "next character"  # the one task whose measure is bits, of which fewer are better
STATEMENTS: tuple[Statement, ...] = (
    Statement("picture", "copy back, 8 x: T5 above .8", "copy back", ("T5Bias", 8), 0.8),
    Statement("picture", "copy back, 8 x: Shaw above .8", "copy back", ("Shaw", 8), 0.8),
    Statement("picture", "copy back, 8 x: xPos above .95", "copy back", ("XPos", 8), 0.95),
    Statement("picture", "look-up, 8 x: xPos above .95", "look-up", ("XPos", 8), 0.95),
    Statement("picture", "copy back, 8 x: Transformer-XL above .95", "copy back", ("TransformerXL", 8), 0.95),
    Statement("picture", "look-up, 8 x: Transformer-XL above .95", "look-up", ("TransformerXL", 8), 0.95),
    Statement("picture", "copy back, 8 x: DeBERTa above .95", "copy back", ("Deberta", 8), 0.95),
    Statement("picture", "copy back, 8 x: CoPE above .95", "copy back", ("Cope", 8), 0.95),
    Statement("picture", "copy back, 8 x: Music Transformer above .95", "copy back", ("MusicTransformer", 8), 0.95),
    Statement("picture", "flip-flop, 8 x: KERPLE above CoPE", "flip-flop", ("Kerple", 8), ("Cope", 8)),
    Statement("picture", "copy back, 8 x: Shaw above RoPE", "copy back", ("Shaw", 8), ("Rotary", 8)),
    Statement("picture", "copy back, 8 x: T5 above FIRE", "copy back", ("T5Bias", 8), ("Fire", 8)),
    Statement("picture", "copy back, 4 x: RoPE above .9", "copy back", ("Rotary", 4), 0.9),
    Statement("picture", "copy back, 2 x: RoPE above sinusoidal", "copy back", ("Rotary", 2), ("Sinusoidal", 2)),
    Statement("picture", "copy back, 2 x: RoPE above learned", "copy back", ("Rotary", 2), ("Learned", 2)),
    Statement("picture", "copy back, 1 x: ALiBi below .98", "copy back", 0.98, ("Alibi", 1), anyway=True),
    Statement("picture", "copy back, 1 x: KERPLE below .98", "copy back", 0.98, ("Kerple", 1), anyway=True),
    Statement("picture", "copy back, 1 x: none below .98", "copy back", 0.98, ("NoPosition", 1), anyway=True),
    Statement("picture", "look-up, 8 x: ALiBi above .98", "look-up", ("Alibi", 8), 0.98),
    Statement("picture", "look-up, 8 x: KERPLE above .98", "look-up", ("Kerple", 8), 0.98),
    Statement("picture", "look-up, 8 x: T5 above .95", "look-up", ("T5Bias", 8), 0.95),
    Statement("picture", "look-up, 8 x: FIRE above .95", "look-up", ("Fire", 8), 0.95),
    Statement("picture", "look-up, 8 x: Shaw above .98", "look-up", ("Shaw", 8), 0.98),
    Statement("picture", "look-up, 8 x: ALiBi above sinusoidal", "look-up", ("Alibi", 8), ("Sinusoidal", 8)),
    Statement("picture", "look-up, 8 x: ALiBi above learned", "look-up", ("Alibi", 8), ("Learned", 8)),
    Statement("picture", "look-up, 8 x: ALiBi above RoPE", "look-up", ("Alibi", 8), ("Rotary", 8)),
    Statement("two papers", "induction, 8 x: ALiBi above T5", "induction", ("Alibi", 8), ("T5Bias", 8)),
    Statement("two papers", "induction, 8 x: RoPE above xPos", "induction", ("Rotary", 8), ("XPos", 8)),
    Statement("two papers", "flip-flop, 2 x: ALiBi above T5", "flip-flop", ("Alibi", 2), ("T5Bias", 2)),
    Statement("two papers", "flip-flop, 8 x: T5 above ALiBi", "flip-flop", ("T5Bias", 8), ("Alibi", 8)),
    Statement("two papers", "text, 8 x: ALiBi needs more bits than T5", TEXT, ("Alibi", 8), ("T5Bias", 8)),
    Statement("two papers", "text, 1 x: ALiBi needs more bits than RoPE", TEXT, ("Alibi", 1), ("Rotary", 1)),
    Statement("two papers", "text, 8 x: RoPE needs more bits than ALiBi", TEXT, ("Rotary", 8), ("Alibi", 8)),
    Statement("two papers", "look-up, 8 x: none above RoPE", "look-up", ("NoPosition", 8), ("Rotary", 8)),
    Statement("two papers", "look-up, 8 x: none above sinusoidal", "look-up", ("NoPosition", 8), ("Sinusoidal", 8)),
    Statement("two papers", "passkey, 8 x: none above RoPE", "passkey", ("NoPosition", 8), ("Rotary", 8)),
    Statement("two papers", "passkey, 8 x: none above sinusoidal", "passkey", ("NoPosition", 8), ("Sinusoidal", 8)),
    Statement("two papers", "text, 1 x: none needs more bits than RoPE", TEXT, ("NoPosition", 1), ("Rotary", 1)),
    Statement(
        "two papers", "text, 1 x: none needs more bits than sinusoidal", TEXT, ("NoPosition", 1), ("Sinusoidal", 1)
    ),
    Statement("two papers", "text, 8 x: RoPE needs more bits than none", TEXT, ("Rotary", 8), ("NoPosition", 8)),
    Statement(
        "two papers", "text, 8 x: sinusoidal needs more bits than none", TEXT, ("Sinusoidal", 8), ("NoPosition", 8)
    ),
    Statement("map", "copy back, 8 x: FIRE below .3", "copy back", 0.3, ("Fire", 8)),
    Statement("map", "copy back, 8 x: sinusoidal below .3", "copy back", 0.3, ("Sinusoidal", 8)),
    Statement("map", "copy back, 8 x: learned below .3", "copy back", 0.3, ("Learned", 8)),
    Statement("map", "induction, 4 x: sinusoidal above RoPE", "induction", ("Sinusoidal", 4), ("Rotary", 4)),
    Statement("map", "induction, 4 x: RoPE above xPos", "induction", ("Rotary", 4), ("XPos", 4)),
    Statement("map", "induction, 8 x: FIRE above .6", "induction", ("Fire", 8), 0.6),
    Statement("map", "induction, 8 x: KERPLE above .9", "induction", ("Kerple", 8), 0.9),
    Statement("map", "induction, 8 x: ALiBi above .8", "induction", ("Alibi", 8), 0.8),
    Statement("map", "induction, 8 x: FoX above .9", "induction", ("Fox", 8), 0.9),
    Statement("map", "induction, 8 x: T5 below .4", "induction", 0.4, ("T5Bias", 8)),
    Statement("map", "induction, 8 x: Shaw below .4", "induction", 0.4, ("Shaw", 8)),
    Statement("map", "grid, 8 x: axial RoPE above T5", "grid", ("AxialRotary", 8), ("T5Bias", 8)),
    Statement("map", "passkey, 8 x: T5 above learned", "passkey", ("T5Bias", 8), ("Learned", 8)),
    Statement("learned", "ceiling: NEZHA needs more bits than Shaw", TEXT, ("Nezha", 1), ("Shaw", 1)),
    Statement("learned", "beyond, 8 x, induction: NEZHA above Shaw", "induction", ("Nezha", 8), ("Shaw", 8)),
    Statement(
        "learned", "beyond, 8 x, passkey: learned above sinusoidal", "passkey", ("Learned", 8), ("Sinusoidal", 8)
    ),
    Statement("learned", "ceiling: RoPE needs more bits than Shaw", TEXT, ("Rotary", 1), ("Shaw", 1)),
    Statement("learned", "ceiling: ALiBi needs more bits than T5", TEXT, ("Alibi", 1), ("T5Bias", 1)),
    Statement("learned", "beyond, 8 x: learned needs more bits than none", TEXT, ("Learned", 8), ("NoPosition", 8)),
    Statement("learned", "beyond, 8 x: RoPE needs more bits than Shaw", TEXT, ("Rotary", 8), ("Shaw", 8)),
    Statement(
        "learned",
        "beyond, 8 x, induction: ALiBi above Music Transformer",
        "induction",
        ("Alibi", 8),
        ("MusicTransformer", 8),
    ),
    Statement(
        "learned",
        "beyond, 8 x, induction: Music Transformer above learned",
        "induction",
        ("MusicTransformer", 8),
        ("Learned", 8),
    ),
    Statement("learned", "beyond, 8 x: RoPE needs more bits than xPos", TEXT, ("Rotary", 8), ("XPos", 8)),
    Statement("learned", "beyond, 8 x, passkey: ALiBi above Shaw", "passkey", ("Alibi", 8), ("Shaw", 8)),
    Statement(
        "choosing",
        "induction, 4 x: the fast YaRN above RoPE",
        "induction",
        ("Rotary, YaRN, fast from 4 turns", 4),
        ("Rotary", 4),
    ),
    Statement(
        "choosing", "copy back, 8 x: RoPE NTK-aware above RoPE", "copy back", ("Rotary, NTK-aware", 8), ("Rotary", 8)
    ),
    Statement(
        "choosing", "text, 8 x: RoPE needs more bits than RoPE NTK-aware", TEXT, ("Rotary", 8), ("Rotary, NTK-aware", 8)
    ),
    Statement(
        "choosing",
        "passkey, 8 x: the fast YaRN above RoPE",
        "passkey",
        ("Rotary, YaRN, fast from 4 turns", 8),
        ("Rotary", 8),
    ),
    Statement(
        "choosing",
        "copy back, 2 x: RoPE above the fast YaRN",
        "copy back",
        ("Rotary", 2),
        ("Rotary, YaRN, fast from 4 turns", 2),
    ),
    Statement("cost", "passkey, 8 x: ALiBi above FIRE", "passkey", ("Alibi", 8), ("Fire", 8)),
    Statement("cost", "induction, 8 x: ALiBi above FIRE", "induction", ("Alibi", 8), ("Fire", 8)),
    Statement("cost", "induction, 8 x: KERPLE above ALiBi", "induction", ("Kerple", 8), ("Alibi", 8)),
    Statement("choosing", "passkey, 8 x: ALiBi above RoPE", "passkey", ("Alibi", 8), ("Rotary", 8)),
    Statement("choosing", "grid, 8 x: M-RoPE above RoPE", "grid", ("MRope", 8), ("Rotary", 8)),
    Statement("choosing", "grid, 8 x: axial RoPE above RoPE", "grid", ("AxialRotary", 8), ("Rotary", 8)),
    Statement("choosing", "copy back, 8 x: T5 above RoPE", "copy back", ("T5Bias", 8), ("Rotary", 8)),
    Statement("choosing", "flip-flop, 8 x: T5 above RoPE", "flip-flop", ("T5Bias", 8), ("Rotary", 8)),
    Statement("choosing", "text, 8 x: RoPE needs more bits than T5", TEXT, ("Rotary", 8), ("T5Bias", 8)),
)
