"""Published sizes of causal language models: layers, features and heads by name.

The paper of GPT-3 gives 24 heads of 128 for "xl", which do not add up to 2048; 16 do. Of OPT the
350m is left out: it alone norms after each branch and projects narrower tables.

References
----------
Brown et al., "Language Models are Few-Shot Learners", 2020, table 2.1; Zhang et al., "OPT: Open
Pre-trained Transformer Language Models", 2022, table 1; the configurations of MPT and GPT-2 as
published with their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Layers, features, heads.
Sizes = Mapping[str, tuple[int, int, int]]

MPT: Sizes = MappingProxyType(
    {
        "125m": (12, 768, 12),
        "350m": (24, 1024, 16),
        "760m": (24, 1536, 12),
        "1b": (24, 2048, 16),
        "3b": (32, 2560, 20),
        "7b": (32, 4096, 32),
        "13b": (40, 5120, 40),
        "30b": (48, 7168, 56),
        "70b": (80, 8192, 64),
    }
)
GPT2: Sizes = MappingProxyType(
    {
        "small": (12, 768, 12),
        "medium": (24, 1024, 16),
        "large": (36, 1280, 20),
        "xl": (48, 1600, 25),
    }
)
GPT3: Sizes = MappingProxyType(
    {
        "small": (12, 768, 12),
        "medium": (24, 1024, 16),
        "large": (24, 1536, 16),
        "xl": (24, 2048, 16),
        "2.7b": (32, 2560, 32),
        "6.7b": (32, 4096, 32),
        "13b": (40, 5120, 40),
        "175b": (96, 12288, 96),
    }
)
OPT: Sizes = MappingProxyType(
    {
        "125m": (12, 768, 12),
        "1.3b": (24, 2048, 32),
        "2.7b": (32, 2560, 32),
        "6.7b": (32, 4096, 32),
        "13b": (40, 5120, 40),
        "30b": (48, 7168, 56),
        "66b": (64, 9216, 72),
    }
)
#: Positions that OPT's table holds before the first token.
OPT_OFFSET = 2
