r"""The UNet of Stable Diffusion 1.5, made from its dimensions: nothing is downloaded.

.venv/bin/perfmodel predict examples/diffusion.py:unet --batch-size 8 --precision fp16 --on L4 \
    --inputs "sample=1x4x64x64,timestep=1:int64,encoder_hidden_states=1x77x768"
"""

from __future__ import annotations

import torch
from diffusers import UNet2DConditionModel
from torch import nn


def unet() -> nn.Module:
    """Make the network that removes noise; ``from_config`` takes a ``config.json`` alike."""
    return UNet2DConditionModel(
        sample_size=64,
        block_out_channels=(320, 640, 1280, 1280),
        cross_attention_dim=768,
        attention_head_dim=8,
    )


if __name__ == "__main__":
    with torch.device("meta"):  # shapes alone: the weights would be 3.4 GB
        network = unet()
    print(f"{sum(parameter.numel() for parameter in network.parameters())} parameters")
