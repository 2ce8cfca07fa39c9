"""From the ``config.json`` of a model to the place where position enters each of its layers.

    python -m posenc_lib.configs PATH

``scheme_of`` reads one layer, ``groups`` puts together those that are read alike, ``described`` and the command say
what a file means for a person. Nothing is downloaded and no model is built: only the fields of the file count, and
where a file leaves one out, what transformers takes in its place. ``cached_numbers`` counts keys and values.
``learned_table``, ``t5_bias`` and ``projections`` read trained numbers, from a folder or a name on the Hugging Face
hub.
"""

from posenc_lib.configs.cache import cached_numbers as cached_numbers
from posenc_lib.configs.checkpoints import Projections as Projections
from posenc_lib.configs.checkpoints import Unreadable as Unreadable
from posenc_lib.configs.checkpoints import learned_table as learned_table
from posenc_lib.configs.checkpoints import projections as projections
from posenc_lib.configs.checkpoints import t5_bias as t5_bias
from posenc_lib.configs.layers import scheme_of as scheme_of
from posenc_lib.configs.public import public_models as public_models
from posenc_lib.configs.public import shared_parameters as shared_parameters
from posenc_lib.configs.public import shipped as shipped
from posenc_lib.configs.reading import Reading as Reading
from posenc_lib.configs.words import described as described
from posenc_lib.configs.words import groups as groups
