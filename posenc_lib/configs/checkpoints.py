"""The trained numbers of a published model that concern position, from its folder or its name on the Hugging Face hub.

``learned_table`` reads the rows that are added to the input, ``t5_bias`` the number of each bucket and head,
``projections`` the queries and keys of a layer that rotates them, and the norm that each pair of frequencies carries.
A model is a ``config.json`` beside ``model.safetensors``, or beside the several files that
``model.safetensors.index.json`` names. Of these only the tensors asked for are read; from the hub a file is fetched
whole, once, and kept where other programs look for it, too.

Needs safetensors, and for names on the hub huggingface_hub. What cannot be read is an ``Unreadable``.
"""

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc_lib import validate
from posenc_lib.configs.fields import layers_of, short, sizes
from posenc_lib.configs.layers import known, scheme_of
from posenc_lib.configs.reading import Reading
from posenc_lib.schemes.learned import Learned
from posenc_lib.schemes.rope import Rotary
from posenc_lib.schemes.t5 import T5Bias

FLOATS = ("F16", "BF16", "F32", "F64")
ON_THE_HUB = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
SECONDS = 3  # for the hub to answer
TABLES = ("wpe.weight", "positions_embed.weight", "embed_positions.weight", "position_embeddings.weight")
NORMS = re.compile(r"\.(q|query)_(norm|layernorm)\.")
UNIT_LENGTH = ("llama4", "llama4_text")  # which normalise without trained numbers


class Unreadable(ValueError):
    """Why a model cannot be read, in one sentence that a program can print and go on."""


def learned_table(model: str | Path) -> Learned:
    """The trained table of a model that adds a row for each position: GPT-2, OPT, BERT, RoBERTa and their like.

    Args:
        model: a folder, or a name on the hub such as "openai-community/gpt2".
    Returns:
        The scheme with the trained ``table`` (max_length, D) float32. Rows of the file that are no place of a token,
        which OPT and RoBERTa have, are left out: row 0 is that of the first token.
    Raises:
        Unreadable: no such model, no connection, files that are broken, no table in it.
    Example:
        >>> from posenc_lib.configs import Unreadable
        >>> try:
        ...     learned_table("no/such/folder")
        ... except Unreadable as error:
        ...     print(error)
        no/such/folder is neither a folder nor the form of a name on the hub, owner/name
    """
    checkpoint = _Checkpoint(model)
    reading = checkpoint.reading(0)
    scheme = reading.input_scheme
    if not isinstance(scheme, Learned):
        raise Unreadable(f"{model} has no learned table: its scheme is {reading.scheme.name}")
    first = reading.first_row
    table = checkpoint.read(checkpoint.name_of(*TABLES), (first + scheme.max_length, scheme.dim), slice(first, None))
    scheme.load_state_dict({"table": table}, assign=True)
    return scheme.requires_grad_(False)


def t5_bias(model: str | Path, decoder: bool = False) -> T5Bias:
    """The trained bias of the encoder or the decoder of a T5, which its first layer holds for all.

    Args:
        model: a folder, or a name on the hub such as "google-t5/t5-small".
        decoder: whose bias.
    Returns:
        The scheme with the trained ``weight`` (num_buckets, H) float32.
    Raises:
        Unreadable: as :func:`learned_table`.
    Example:
        >>> from posenc_lib.configs import Unreadable
        >>> try:
        ...     t5_bias("no/such/folder")
        ... except Unreadable as error:
        ...     print(error)
        no/such/folder is neither a folder nor the form of a name on the hub, owner/name
    """
    checkpoint = _Checkpoint(model)
    scheme = checkpoint.reading(-1 if decoder else 0).scheme
    if not isinstance(scheme, T5Bias):
        raise Unreadable(f"{model} has no bias of T5: its scheme is {scheme.name}")
    side = "decoder" if decoder else "encoder"
    name = checkpoint.name_of(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    scheme.load_state_dict({"weight": checkpoint.read(name, (scheme.num_buckets, scheme.num_heads))})
    return scheme.requires_grad_(False)


@dataclass(frozen=True)
class Projections:
    """What makes queries and keys of the input of a layer that rotates them.

    Attributes:
        scheme: the rotation; its ``layout`` says which rows of a head form a pair.
        q, k: (H, d, D) and (G, d, D), each of the G keys for H/G heads.
        q_bias, k_bias: (H, d) and (G, d), zero where the model has none.
    Example:
        >>> from posenc_lib import Rotary
        >>> q = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])  # one head, one pair
        >>> made = Projections(Rotary(2), q, q, q_bias=torch.zeros(1, 2), k_bias=torch.zeros(1, 2))
        >>> made.pair_norms()
        (tensor([[5.]]), tensor([[5.]]))
        >>> made.queries(torch.ones(1, 1, 2))
        tensor([[[[3., 4.]]]])
    """

    scheme: Rotary
    q: Tensor
    k: Tensor
    q_bias: Tensor
    k_bias: Tensor

    def queries(self, x: Tensor) -> Tensor:
        """(B, H, L, d) queries before rotation, of the input x (B, L, D) of the projections."""
        return torch.einsum("bli,hdi->bhld", x, self.q) + self.q_bias[:, None]

    def keys(self, x: Tensor) -> Tensor:
        """(B, H, L, d) keys before rotation, those of a group repeated for each of its heads."""
        k = torch.einsum("bli,gdi->bgld", x, self.k) + self.k_bias[:, None]
        return k.repeat_interleave(len(self.q) // len(self.k), dim=1)

    def pair_norms(self) -> tuple[Tensor, Tensor]:
        """(H, r/2) and (G, r/2): how long the part of a query and of a key is that each pair turns, fast pairs first.

        It is the root of the mean square for inputs whose components are independent, with mean 0 and variance 1.
        """
        return self._norms(self.q, self.q_bias), self._norms(self.k, self.k_bias)

    def _norms(self, weight: Tensor, bias: Tensor) -> Tensor:
        squares = (weight.square().sum(-1) + bias.square())[:, : 2 * len(self.scheme.inv_freq)]
        if self.scheme.layout == "half":
            return squares.unflatten(-1, (2, -1)).sum(-2).sqrt()
        return squares.unflatten(-1, (-1, 2)).sum(-1).sqrt()


def projections(model: str | Path, layer: int) -> Projections:
    """What makes the queries and keys of a layer with RoPE.

    Args:
        model: a folder, or a name on the hub such as "EleutherAI/pythia-70m".
        layer: from 0.
    Returns:
        The projections in float32, rows in the order of ``scheme.layout``; of GPT-NeoX and Phi-3, which keep queries,
        keys and values in one matrix, their part of it.
    Raises:
        Unreadable: as :func:`learned_table`; a layer that does not rotate, or whose queries are normalised after the
            projection, so that this alone does not say what a pair carries.
    Example:
        >>> from posenc_lib.configs import Unreadable
        >>> try:
        ...     projections("no/such/folder", layer=0)
        ... except Unreadable as error:
        ...     print(error)
        no/such/folder is neither a folder nor the form of a name on the hub, owner/name
    """
    validate.integer("layer", layer, at_least=0)
    checkpoint = _Checkpoint(model)
    reading = checkpoint.reading(layer)
    scheme = reading.scheme
    if type(scheme) is not Rotary:
        raise Unreadable(f"layer {layer} of {model} has no plain rotation: its scheme is {scheme.name}")
    places = [f"layers.{layer}.self_attn.", f"layers.{layer}.attention.", f"h.{layer}.attn."]
    inside = [name for name in checkpoint.files if any(f".{place}" in f".{name}" for place in places)]
    if reading.model_type in UNIT_LENGTH or any(NORMS.search(name) for name in inside):
        raise Unreadable(f"layer {layer} of {model} normalises its queries, which its projections do not show")
    width, heads, _ = sizes(known(checkpoint.config)[0])
    d, total = scheme.head_dim, heads * scheme.head_dim

    def read(part: str, count: int | None = None) -> Tensor:
        names = [f"{place}{part}" for place in places]
        return checkpoint.with_bias(checkpoint.name_of(*(f"{name}.weight" for name in names)), (count, width))

    if any("query_key_value" in name for name in inside):  # of each head its query, its key, its value
        q, k, _ = read("query_key_value", 3 * total).view(heads, 3, d, -1).unbind(1)
    else:
        if any("qkv_proj" in name for name in inside):  # all queries, all keys, all values
            q, k = read("qkv_proj").tensor_split([total])
            groups, rest = divmod(len(k), 2 * d)
        else:
            q, k = read("q_proj", total), read("k_proj")
            groups, rest = divmod(len(k), d)
        if rest or not groups or heads % groups:
            raise Unreadable(f"layer {layer} of {model} has {len(k)} rows for keys, no groups of {heads} heads of {d}")
        q, k = q.unflatten(0, (heads, d)), k[: groups * d].unflatten(0, (groups, d))
    return Projections(scheme, q[..., :-1], k[..., :-1], q[..., -1], k[..., -1])


class _Checkpoint:
    """The files of a model: what its configuration says, and in which file each tensor is."""

    def __init__(self, model: str | Path):
        if not isinstance(model, str | Path):
            raise TypeError(f"model must be a folder or a name, got {type(model).__name__}")
        self.model = model
        self.config = self._json("config.json")
        try:
            index = self._json("model.safetensors.index.json")
        except _NoFile:
            self.files = dict.fromkeys(self._names("model.safetensors"), "model.safetensors")
            return
        files = index.get("weight_map")
        # a name that leads out of the folder is refused
        if not isinstance(files, dict) or not all(isinstance(f, str) and Path(f).name == f for f in files.values()):
            raise Unreadable(f"model.safetensors.index.json of {model} does not say in which file each tensor is")
        self.files = files

    def reading(self, layer: int) -> Reading:
        """What the configuration says of a layer; of the last one for -1."""
        try:
            layer = layers_of(known(self.config)[0]) - 1 if layer < 0 else layer
            return scheme_of(self.config, layer)
        except (ValueError, TypeError) as error:
            raise Unreadable(f"config.json of {self.model}: {error}") from error

    def name_of(self, *endings: str) -> str:
        """The only tensor whose name ends like one of these."""
        found = [name for name in self.files if any(f".{name}".endswith(f".{ending}") for ending in endings)]
        if len(found) != 1:
            several = f"several: {short(sorted(found))}" if found else "none"
            raise Unreadable(f"{self.model} must have one tensor {' or '.join(endings)}, and has {several}")
        return found[0]

    def read(self, name: str, shape: tuple[int | None, ...], rows: slice = slice(None)) -> Tensor:
        """Rows of a tensor as float32, which must have the shape; None is any size."""
        with self._open(self.files[name]) as file:
            if name not in file.keys():  # noqa: SIM118  # it is no mapping
                raise Unreadable(f"{self.files[name]} of {self.model} does not hold {name}, as the index says")
            part = file.get_slice(name)
            found, kind = tuple(part.get_shape()), part.get_dtype()
            if len(found) != len(shape) or any(n not in (None, m) for n, m in zip(shape, found, strict=True)):
                wanted = " x ".join("?" if n is None else str(n) for n in shape)
                raise Unreadable(f"{name} of {self.model} must be {wanted}, got {' x '.join(map(str, found))}")
            if kind not in FLOATS:
                raise Unreadable(f"{name} of {self.model} must hold one of {', '.join(FLOATS)}, got {kind}")
            tensor: Tensor = part[rows].to(torch.float32, copy=True)  # or it lives in the file, and dies with it
        return tensor

    def with_bias(self, name: str, shape: tuple[int | None, int]) -> Tensor:
        """A weight (rows, D), and in column D its bias, or zeros."""
        weight, bias = self.read(name, shape), name.removesuffix("weight") + "bias"
        column = self.read(bias, (len(weight),)) if bias in self.files else torch.zeros(len(weight))
        return torch.cat([weight, column[:, None]], dim=1)

    def _names(self, name: str) -> list[str]:
        with self._open(name) as file:
            return list(file.keys())

    @contextmanager
    def _open(self, name: str) -> Iterator[Any]:
        try:
            from safetensors import SafetensorError, safe_open
        except ImportError as error:
            raise Unreadable("to read weights, safetensors must be installed: pip install safetensors") from error
        path = _path(self.model, name)
        try:
            with safe_open(path, framework="pt") as file:
                yield file
        except (OSError, RuntimeError, SafetensorError) as error:
            raise Unreadable(f"{name} of {self.model} cannot be read as a safetensors file: {error}") from error

    def _json(self, name: str) -> dict[str, Any]:
        path = _path(self.model, name)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise Unreadable(f"{name} of {self.model} is no JSON: {error}") from error
        if not isinstance(content, dict):
            raise Unreadable(f"{name} of {self.model} must be an object, got {type(content).__name__}")
        return content


class _NoFile(Unreadable):
    """The model is there and has no file of this name."""


def _path(model: str | Path, name: str) -> Path:
    """Where a file of a model is on this computer; from the hub it is fetched if it is not here yet."""
    folder = Path(os.path.expanduser(model))
    if str(model) and os.path.isdir(folder):  # unlike Path's own, for any string
        if not (folder / name).is_file():
            raise _NoFile(f"{model} has no {name}")
        return folder / name
    if not ON_THE_HUB.fullmatch(str(model)):
        raise Unreadable(f"{model} is neither a folder nor the form of a name on the hub, owner/name")
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError as error:
        raise Unreadable(
            f"{model} is no folder; to read it from the hub, huggingface_hub must be installed: "
            "pip install huggingface_hub"
        ) from error
    here_only = not _answers(huggingface_hub.constants.ENDPOINT)
    try:
        return Path(huggingface_hub.hf_hub_download(str(model), name, local_files_only=here_only))
    except errors.LocalEntryNotFoundError as error:
        why = "the hub does not answer" if here_only else "the connection broke"
        raise _NoFile(f"{model} is no folder, and {why}, so that {name} cannot be fetched") from error
    except errors.EntryNotFoundError as error:
        raise _NoFile(f"{model} has no {name} on the hub") from error
    except errors.RepositoryNotFoundError as error:
        raise Unreadable(f"{model} is no folder, and no model that the hub shows without being asked for") from error
    except Exception as error:  # of whatever lies between
        said = str(error).splitlines() or [type(error).__name__]
        raise Unreadable(f"{name} of {model} cannot be fetched: {said[0]}") from error


def _answers(address: str) -> bool:
    """Whether somebody is there; huggingface_hub itself asks again for half a minute."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=SECONDS).close()
    except urllib.error.HTTPError:
        return True  # which is an answer, too
    except (OSError, ValueError):
        return False
    return True
