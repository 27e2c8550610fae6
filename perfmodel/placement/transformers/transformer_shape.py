r"""Dimensions of a transformer, and what follows from them: parameters, arithmetic, activations.

With width h, a heads of d features, g heads of keys and values, an inner width f, E experts of
which k work on a token, s tokens of a sequence and V words::

    attention  = h a d + 2 h g d + a d h                      weights: queries, keys, values, output
    expert     = 2 h f, or 3 h f where a gate multiplies
    layer      = attention + E expert + (h E where E > 1) + biases + 2 norms
    parameters = l layer + V h + positions + norm + (V h where the output has weights of its own)
    FLOPs      = 3 [ 2 r (l (attention + k expert + h E) + V h) + 4 r s l a d ]

for r tokens of training (a forward pass is a third of that; the backward pass multiplies twice).
Scores count the whole square of the sequence, causal or not, as is usual in reports of FLOP
utilisation. Norms, activations and softmax are left out of FLOPs: they wait for the memory.

Activations that one layer keeps for its backward pass, in 16 bits, bytes for a token::

    shared = 8 h + dropout 2 h                inputs of norms, attention and feed-forward network
    split  = 4 a d + 4 g d + k (4 f, gated 8 f)
    scores = 5 a s                            only where they are written to memory

For h = a d = g d and f = 4 h these are the 34 h + 5 a s of the reference.

Reference: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022;
Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.errors import InvalidInputError

#: Fields of :class:`TransformerShape` that may be zero.
_MAY_BE_ZERO = ("position_count", "other_parameters", "norm_vectors")


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerShape:
    """Dimensions of a stack of equal transformer layers.

    Parameters
    ----------
    sequence_length : int
        Tokens of a sample.
    vocabulary : int
        Words of the token table.
    kv_heads : int or None
        Heads of keys and values; None means ``heads``.
    head_size : int or None
        Features of a head; None means ``hidden_size // heads``.
    ffn_size : int or None
        Inner width of the feed-forward network (of one expert); None means ``4 * hidden_size``.
    is_gated : bool
        The feed-forward network has a third matrix, whose output multiplies (SwiGLU).
    experts, experts_per_token : int
        Feed-forward networks of a layer, and how many of them a token passes.
    mixture_layers : int or None
        Layers that have experts; None means all. Networks of the others are part of
        ``own_weights``, which counts the mean over all layers then.
    has_attention_biases, has_output_bias, has_ffn_biases : bool
        Queries, keys and values; the output of attention; the feed-forward network.
    norm_vectors : int
        Vectors of width h in a norm: 2 (scale and shift) or 1.
    position_count : int
        Learned positions; 0 where positions are computed.
    has_head : bool
        Scores over the vocabulary are computed.
    is_tied : bool
        The output layer is the token table.
    has_dropout : bool
        Masks of dropout are kept.
    other_parameters : int
        What stands outside of layers, tables and the last norm.
    own_weights : int or None
        Elements of the products of a layer that every token passes beside its experts, where they
        are not the four of attention: keys and values from a common narrow vector, a network that
        all tokens share.

    Raises
    ------
    InvalidInputError
        A number that is not above zero, or heads that do not share keys and values evenly.

    Examples
    --------
    The 1.3 billion parameters of MPT 1B, 12 l h^2 + 13 l h + (V + s) h + 2 h:

    >>> mpt = TransformerShape(layers=24, hidden_size=2048, heads=16, sequence_length=2048,
    ...                        vocabulary=50368, position_count=2048)
    >>> mpt.parameter_count == 12 * 24 * 2048**2 + 13 * 24 * 2048 + (50368 + 2048) * 2048 + 2 * 2048
    True
    """

    layers: int
    hidden_size: int
    heads: int
    sequence_length: int
    vocabulary: int
    kv_heads: int | None = None
    head_size: int | None = None
    ffn_size: int | None = None
    is_gated: bool = False
    experts: int = 1
    experts_per_token: int = 1
    mixture_layers: int | None = None
    has_attention_biases: bool = True
    has_output_bias: bool = True
    has_ffn_biases: bool = True
    norm_vectors: int = 2
    position_count: int = 0
    has_head: bool = True
    is_tied: bool = True
    has_dropout: bool = False
    other_parameters: int = 0
    own_weights: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is None or isinstance(value, bool):
                continue
            if value < (0 if name in _MAY_BE_ZERO else 1):
                raise InvalidInputError(f"{name} of a transformer must be above 0; got {value}.")
        if self.heads % self.key_value_heads:
            raise InvalidInputError(
                f"{self.heads} heads do not share {self.key_value_heads} heads of keys and values."
            )
        if self.experts_per_token > self.experts:
            raise InvalidInputError(
                f"A token cannot pass {self.experts_per_token} of {self.experts} experts."
            )

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def features_per_head(self) -> int:
        """Features of a head."""
        return self.hidden_size // self.heads if self.head_size is None else self.head_size

    @property
    def attention_width(self) -> int:
        """Features of all queries together."""
        return self.heads * self.features_per_head

    @property
    def key_value_width(self) -> int:
        """Features of all keys (or values) together."""
        return self.key_value_heads * self.features_per_head

    @property
    def inner_size(self) -> int:
        """Inner width of the feed-forward network, of one expert."""
        return 4 * self.hidden_size if self.ffn_size is None else self.ffn_size

    @property
    def attention_weights(self) -> int:
        """Elements of the four products of attention in a layer, or of what takes their place."""
        if self.own_weights is not None:
            return self.own_weights
        return self.hidden_size * 2 * (self.attention_width + self.key_value_width)

    @property
    def expert_weights(self) -> int:
        """Elements of the products of one feed-forward network."""
        return (3 if self.is_gated else 2) * self.hidden_size * self.inner_size

    @property
    def router_weights(self) -> int:
        """Elements of the product that chooses experts."""
        return self.hidden_size * self.experts if self.experts > 1 else 0

    @property
    def mixture_share(self) -> float:
        """Part of the layers that have experts, where there are some."""
        return 1.0 if self.mixture_layers is None else self.mixture_layers / self.layers

    @property
    def expert_parameters(self) -> int:
        """Parameters of one feed-forward network."""
        biases = (2 if self.is_gated else 1) * self.inner_size + self.hidden_size
        return self.expert_weights + (biases if self.has_ffn_biases else 0)

    @property
    def shared_parameters(self) -> int:
        """Parameters of a layer outside of its feed-forward networks."""
        biases = self.attention_width + 2 * self.key_value_width
        return (
            self.attention_weights
            + self.router_weights
            + (biases if self.has_attention_biases else 0)
            + (self.hidden_size if self.has_output_bias else 0)
            + 2 * self.norm_vectors * self.hidden_size
        )

    @property
    def layer_parameters(self) -> int:
        """Parameters of a layer."""
        return self.shared_parameters + self.experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the tables of tokens and positions."""
        return (self.vocabulary + self.position_count) * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """Parameters after the last layer that are not those of the tables."""
        own = self.has_head and not self.is_tied
        return self.norm_vectors * self.hidden_size + (
            self.vocabulary * self.hidden_size if own else 0
        )

    @property
    def parameter_count(self) -> int:
        """All parameters, shared ones once."""
        without = 0 if self.mixture_layers is None else self.layers - self.mixture_layers
        mixture = self.router_weights + self.experts * self.expert_parameters
        return (
            self.layers * self.layer_parameters
            - without * mixture
            + self.embedding_parameters
            + self.head_parameters
            + self.other_parameters
        )

    @property
    def token_weights(self) -> int:
        """Elements of the products that one token passes in a mean layer."""
        mixture = self.router_weights + self.experts_per_token * self.expert_weights
        if self.mixture_layers is None:
            return self.attention_weights + mixture
        return self.attention_weights + round(self.mixture_share * mixture)

    @property
    def token_flops(self) -> float:
        """Arithmetic of one token in training (three forward passes)."""
        products = self.layers * self.token_weights
        if self.has_head:
            products += self.vocabulary * self.hidden_size
        scores = 4 * self.layers * self.sequence_length * self.attention_width
        return 3.0 * (2 * products + scores)

    @property
    def sample_flops(self) -> float:
        """Arithmetic of one sample in training."""
        return self.sequence_length * self.token_flops

    @property
    def shared_activation_bytes(self) -> float:
        """Bytes that a token keeps in a layer which tensor parallelism alone does not split."""
        return (10.0 if self.has_dropout else 8.0) * self.hidden_size

    @property
    def split_activation_bytes(self) -> float:
        """Bytes that a token keeps in a layer which tensor parallelism splits."""
        attention = 4.0 * (self.attention_width + self.key_value_width)
        network = (8.0 if self.is_gated else 4.0) * self.inner_size
        dispatched = 4.0 * self.hidden_size if self.experts > 1 else 0.0
        return attention + self.experts_per_token * (network + dispatched)

    @property
    def score_activation_bytes(self) -> float:
        """Bytes that a token keeps of the scores of a layer, where they are written."""
        return 5.0 * self.heads * self.sequence_length
