r"""Low-rank adapters as ``adapter_config.json`` of the library peft describes them.

A linear layer of weights W whose name matches ``target_modules`` computes
:math:`W x + \tfrac{\alpha}{r} B A x`, with A of r rows and B of r columns; A and B are trained and
W is not. Nothing is trained beside them but ``modules_to_save`` and, as ``bias`` says, biases.

Left out, and refused: adapters of other kinds than LoRA, magnitudes of their own (``use_dora``),
ranks or scales by pattern, layers by index, and quantised weights below them, which are a matter of
the model.

Reference: Hu et al., LoRA, 2021; ``LoraConfig`` of huggingface/peft.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import (
    as_count,
    as_known_text,
    as_number,
    as_object,
    as_text,
    shown,
)

#: Stands for all linear layers but the last one, as in peft.
ALL_LINEAR = "all-linear"
_BIASES = ("none", "all", "lora_only")
#: Fields that change what is trained in ways that are not answered, where they say something.
_REFUSED = (
    "use_dora", "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern",
    "layer_replication", "trainable_token_indices", "target_parameters", "megatron_config",
    "exclude_modules", "use_qalora", "eva_config", "corda_config", "loftq_config", "arrow_config",
)  # fmt: skip
_MOST_NAMES = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LowRankAdapter:
    """A LoRA adapter.

    Parameters
    ----------
    rank : int
        Rows of A, >= 1.
    target_modules : tuple of str or str
        Names, each of which a module is called or its path ends in; or a regular expression for
        whole paths, or :data:`ALL_LINEAR`.
    dropout : float
        Share of what goes into A that is dropped, in [0, 1).
    bias : str
        ``none``, ``all`` or ``lora_only``: which biases of the model are trained.
    """

    rank: int = 8
    target_modules: tuple[str, ...] | str = ALL_LINEAR
    modules_to_save: tuple[str, ...] = ()
    dropout: float = 0.0
    bias: str = "none"

    @classmethod
    def read(cls, value: object, pointer: str) -> Self:
        """Read an ``adapter_config.json``; fields that change no step are passed over.

        Raises
        ------
        InvalidInputError
            Another kind of adapter, something that is not answered, or a value out of range.

        Examples
        --------
        >>> LowRankAdapter.read({"peft_type": "LORA", "r": 16, "target_modules": ["q_proj"]}, "")
        LowRankAdapter(rank=16, target_modules=('q_proj',), modules_to_save=(), dropout=0.0, bias='none')
        """  # noqa: E501
        fields = as_object(value, pointer, what="adapter")
        as_known_text(
            "peft_type", fields.get("peft_type", "LORA"), ("LORA",), f"{pointer}/peft_type"
        )
        for name in _REFUSED:
            if fields.get(name):
                raise InvalidInputError(
                    f"Adapters with {name} are not answered; got {shown(fields[name])}. Leave it "
                    "out for the LoRA without it.",
                    pointer=f"{pointer}/{name}",
                )
        stated = {name: one for name, one in fields.items() if one is not None}
        return cls(
            rank=as_count("r", stated.get("r", 8), f"{pointer}/r"),
            target_modules=_targets(stated.get("target_modules", ALL_LINEAR), pointer),
            modules_to_save=_names("modules_to_save", stated.get("modules_to_save", ()), pointer),
            dropout=_share(stated.get("lora_dropout", 0.0), f"{pointer}/lora_dropout"),
            bias=as_known_text("bias", stated.get("bias", "none"), _BIASES, f"{pointer}/bias"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it in the words of peft; :meth:`read` reads them back."""
        named = isinstance(self.target_modules, str)
        return {
            "peft_type": "LORA",
            "r": self.rank,
            "target_modules": self.target_modules if named else list(self.target_modules),
            "modules_to_save": list(self.modules_to_save),
            "lora_dropout": self.dropout,
            "bias": self.bias,
        }

    def adapts(self, path: str) -> bool:
        """Tell whether ``target_modules`` names the module of a path; not for ALL_LINEAR.

        Examples
        --------
        >>> adapter = LowRankAdapter(target_modules=("q_proj", "mlp.up"))
        >>> [adapter.adapts(path) for path in ("h.0.q_proj", "h.0.mlp.up", "h.0.up")]
        [True, True, False]
        """
        if isinstance(self.target_modules, str):
            return re.fullmatch(self.target_modules, path) is not None
        return is_named(path, self.target_modules)


def is_named(path: str, names: tuple[str, ...]) -> bool:
    """Tell whether a path of a module is one of some names, or ends in one after a dot."""
    return any(path == name or path.endswith(f".{name}") for name in names)


def _targets(value: object, pointer: str) -> tuple[str, ...] | str:
    if not isinstance(value, str):
        found = _names("target_modules", value, pointer)
        if not found:
            raise InvalidInputError(
                "target_modules names no module; name those that get an adapter, or leave it out "
                f"for {ALL_LINEAR!r}.",
                pointer=f"{pointer}/target_modules",
            )
        return found
    text = as_text("target_modules", value, f"{pointer}/target_modules")
    if any(letter in text for letter in "*+{"):
        # Repetitions of repetitions can take for ever to match; no layer's name needs them.
        _refuse_nested(text, f"{pointer}/target_modules")
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidInputError(
            f"target_modules is no regular expression: {error}. Give a list of names.",
            pointer=f"{pointer}/target_modules",
        ) from error
    return text


def _refuse_nested(text: str, pointer: str) -> None:
    if (
        re.search(r"[*+}]\??\)[*+{]", text)
        or len(text) > 200
        or len(re.findall(r"[*+{]", text)) > 4
    ):
        raise InvalidInputError(
            "target_modules repeats too much for a regular expression that is run here; give a "
            "list of names.",
            pointer=pointer,
        )


def _names(name: str, value: object, pointer: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > _MOST_NAMES:
        raise InvalidInputError(
            f"{name} must be a list of at most {_MOST_NAMES} names; got {shown(value)}.",
            pointer=f"{pointer}/{name}",
        )
    return tuple(
        as_text(f"An entry of {name}", one, f"{pointer}/{name}/{at}")
        for at, one in enumerate(value)
    )


def _share(value: object, pointer: str) -> float:
    share = as_number("lora_dropout", value, pointer, least=0.0)
    if share >= 1:
        raise InvalidInputError(f"lora_dropout must be below 1; got {share}.", pointer=pointer)
    return share


def frozen_patterns(value: object, pointer: str) -> tuple[str, ...]:
    """Read the names of parameters that are not trained: patterns with ``*`` and ``?``.

    Raises
    ------
    InvalidInputError
        Not a list of texts.
    """
    return _names("frozen", value, pointer.rpartition("/")[0])
